"""What the forward passes of a probed step show from outside.

The model's input, the loss call, the order of the modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils.hooks import RemovableHandle

from .call import time_first
from .context import Context
from .fast_paths import FastPaths
from .fragility import Fragility
from .hooks import Hook, watched
from .losses import LossCall, LossWatch, individual_losses, is_stateless, part_of, principal_target
from .nested import tensors_in
from .step import MicroBatch


def is_compiled(model: nn.Module) -> bool:
    """Whether the model, or a module in it, runs through `torch.compile`: hooks would make it compile again."""
    optimized = getattr(torch._dynamo, "OptimizedModule", ()) if hasattr(torch, "_dynamo") else ()
    return any(isinstance(m, optimized) or m._compiled_call_impl is not None for m in model.modules())


def withdraw(mode: TorchFunctionMode) -> None:
    """Take a function mode off the stack, from under others too; it may also be that of another thread."""
    above: list[TorchFunctionMode] = []
    if mode in _get_current_function_mode_stack():
        while (top := _pop_mode()) is not mode:
            above.append(top)
    for each in reversed(above):
        _push_mode(each)


class InputWatch:
    """While placed, notes what the model's forward is given. The hook never raises and changes nothing."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._handle: RemovableHandle | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.pending = 0
        """Forward passes that no backward pass has answered for yet."""

    def place(self) -> None:
        """Place the hook."""
        if self._handle is None:
            self._handle = self._model.register_forward_pre_hook(Hook(self._seen), with_kwargs=True)

    def remove(self) -> None:
        """Remove the hook and forget the input."""
        if self._handle is not None:
            self._handle.remove()
        self._handle, self.inputs, self.pending = None, (), 0

    def answered(self) -> bool:
        """A backward pass begins: whether every forward pass that was seen has had its own already."""
        again = bool(self.inputs) and self.pending == 0
        self.pending -= self.pending > 0
        return again

    def _seen(self, _module: nn.Module, args: Any, kwargs: Any) -> None:
        if watched():
            self.inputs = tuple(tensor.detach() for tensor in tensors_in(args, kwargs))
            self.pending += 1


class OrderWatch:
    """While placed, notes the order in which modules are first called."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []
        self.order: list[nn.Module] = []
        self._known: set[nn.Module] = set()

    def place(self, model: nn.Module) -> None:
        """Place a hook on every module."""
        self._handles = [module.register_forward_pre_hook(Hook(self._seen)) for module in model.modules()]

    def remove(self) -> None:
        """Remove the hooks; the order stays."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _seen(self, module: nn.Module, _args: Any) -> None:
        if not torch.compiler.is_compiling() and module not in self._known:
            self._known.add(module)
            self.order.append(module)


class ForwardWatch:
    """Watches the forward passes of one step at a time, and describes each micro-batch from what it saw."""

    def __init__(self, context: Context) -> None:
        self._context, model = context, context.model
        self._loss_fn, self._note_call = context.loss_fn, context.note_call
        self._inputs = InputWatch(model)
        self._fast_paths = FastPaths(model)
        self._losses: LossWatch | None = None
        self.loss_calls: Sequence[LossCall] = ()
        """With their graphs, those of the last micro-batch that was described."""
        self._by_time = any(time_first(module) for module in model.modules())

    def enter(self) -> None:
        """Start watching."""
        self._inputs.place()
        self._context.fragility = Fragility()
        self._losses = LossWatch(self._note_call)
        self._losses.__enter__()  # type: ignore[no-untyped-call]
        self._fast_paths.enter(self._losses)

    def leave(self) -> None:
        """Stop watching; nothing of the step is held any longer."""
        self._fast_paths.leave()
        self._inputs.remove()
        if self._losses is not None:
            withdraw(self._losses)
            self._losses = None

    def describe(
        self, loss: Tensor, unreduced: Tensor | None, outputs: Tensor | None, targets: Tensor | None
    ) -> MicroBatch:
        """The micro-batch whose `loss` (0-d, with graph) is about to be differentiated."""
        batch = MicroBatch(loss.detach(), inputs=self._inputs.inputs, again=self._inputs.answered())
        shapes = [t.shape for t in batch.inputs if t.dim()]
        calls = self.loss_calls = self._seen_calls(loss)
        stated = not calls and outputs is not None and targets is not None
        if stated:
            calls = self._stated_call(loss, outputs, targets)
        if calls:
            call = calls[-1]
            batch.prediction, batch.target, batch.loss_name = call.prediction, call.target, call.name
            batch.ignore_index = call.arguments.get("ignore_index")
            batch.label_smoothing = float(call.arguments.get("label_smoothing") or 0.0)
            batch.weighted = any(call.arguments.get(name) is not None for name in ("weight", "pos_weight"))
            with torch._C.DisableTorchFunction():
                batch.part = loss.detach() if stated else part_of(loss, calls)
                mixed = principal_target(loss, calls)
                batch.target = batch.target if mixed is None else mixed
        elif self._losses is not None and self._losses.pairs is not None:
            batch.prediction, batch.target = (tensor.detach() for tensor in self._losses.pairs)
        if outputs is not None:
            batch.prediction, batch.target = outputs.detach(), None if targets is None else targets.detach()
        if unreduced is not None:
            batch.losses = unreduced.detach()
        elif not calls:
            batch.reason = "no known loss function was seen; pass unreduced losses, or outputs= and targets="
        elif len(calls) > 1:
            batch.reason = f"{len(calls)} losses were called for one backward pass"
        else:
            with torch._C.DisableTorchFunction():  # our own operations are no loss to be seen
                found = individual_losses(calls[0], loss, shapes, stated=stated, by_time=self._by_time)
            batch.losses, batch.reason = found
        if batch.losses is not None:
            batch.samples = len(batch.losses)
        elif shapes and not (self._by_time and len(shapes[0]) > 1):  # which may be that of time
            batch.samples = shapes[0][0]
        return batch

    def _seen_calls(self, loss: Tensor) -> list[LossCall]:
        """The loss calls since the last backward pass."""
        assert self._losses is not None
        if self._losses.failure is not None:
            raise self._losses.failure
        return self._losses.take(loss)

    def _stated_call(self, loss: Tensor, outputs: Tensor | None, targets: Tensor | None) -> list[LossCall]:
        """The call that the user tells of; only a loss of torch's own is made again, since others may keep a state."""
        if not is_stateless(self._loss_fn):
            return []
        function = self._loss_fn.forward if isinstance(self._loss_fn, nn.Module) else self._loss_fn
        with torch.enable_grad():
            function(outputs, targets)
        return self._seen_calls(loss)
