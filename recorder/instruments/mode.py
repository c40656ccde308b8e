"""Mode: which modules are in training mode, and over how many values the batch norms average.

Also what is audited of a pass outside training: `audited_evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from ..capture import watched
from ..forward import tensors_in
from ..hooks import Hook
from ..schema import MODULES, STEPS
from .base import Instrument
from .model_input import choose, has_features, moments, summary

if TYPE_CHECKING:
    from ..context import Context
    from ..step import Step


class Mode(Instrument):
    """Share of modules in training mode; for each batch norm its mode and the fewest values that it averaged over."""

    name = "mode"
    columns = (STEPS["training_share"], MODULES["training"], MODULES["normalized_over"])

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._handles: list[RemovableHandle] = []
        self._seen: dict[str, tuple[bool, int | None]] = {}
        self._failure: Exception | None = None
        if not context.hooks:
            context.explain(("modules.training", "modules.normalized_over"), "compiled")

    def begin(self, step: Step) -> None:
        """Watch the batch norms of the step's forward passes."""
        self.end(step)
        if self.context.hooks:
            norms = batch_norms(self.context.model).items()
            self._handles = [module.register_forward_hook(Hook(self._watch(name))) for name, module in norms]

    def before_backward(self, step: Step) -> None:
        """Right after the step's first forward pass."""
        step.put("training_share", training_share(self.context.model))

    def leave(self, step: Step) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def end(self, step: Step) -> None:
        """Add a row for each batch norm that ran.

        Whatever went wrong in a hook is raised here, outside the user's forward pass.
        """
        self.leave(step)
        seen, failure = self._seen, self._failure
        self._seen, self._failure = {}, None
        if failure is not None:
            raise failure
        for name, (training, values) in seen.items():
            step.add_row("modules", module=name, training=training, normalized_over=values)

    def _watch(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def note(module: nn.Module, _: Any, output: Any) -> None:
            try:
                if watched():
                    self._note(name, module, output)
            except Exception as error:  # the user's forward pass goes on
                self._failure = error

        return note

    def _note(self, name: str, module: nn.Module, output: Tensor) -> None:
        training, values = module.training, normalized_over(module, output)
        _, before = self._seen.get(name, (training, None))
        self._seen[name] = training, values if before is None or (values is not None and values < before) else before


def batch_norms(model: nn.Module) -> dict[str, _BatchNorm]:
    """The batch norms of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)}


def training_share(model: nn.Module) -> float:
    """Share of the modules, the model itself included, that are in training mode."""
    modes = [module.training for module in model.modules()]
    return sum(modes) / len(modes)


def normalized_over(module: nn.Module, output: Tensor) -> int | None:
    """Values of this process that a batch norm averaged over for each channel; None if it used its running statistics.

    `output`: (N, C, ...), of the shape of the input.
    """
    if not (module.training or getattr(module, "running_mean", None) is None):
        return None
    return output.numel() // max(output.shape[1], 1)


@contextmanager
def audited_evaluation(context: Context, split: str) -> Iterator[None]:
    """Record modes and input of the model's first forward pass within, if any, as an `evaluation` event."""

    def audit(model: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():  # a compiled model calls this one, and must not trace us
            return
        handle.remove()  # before the forward pass, so that modules which look for hooks find none
        try:
            detail = evaluation(model, tensors_in((args, kwargs)), split)
            context.event("evaluation", f"A pass over {split!r}", **detail)
        except Exception as error:  # the user's forward pass goes on
            message = f"The audit of {split!r} failed: {error}"
            context.once("error", message, instrument=Mode.name, exception=repr(error))

    handle = context.model.register_forward_pre_hook(Hook(audit), with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def evaluation(model: nn.Module, inputs: Iterable[Tensor], split: str) -> dict[str, Any]:
    """Detail of an `evaluation` event; 0-d tensors stay on the device. No statistics where no input has any."""
    detail: dict[str, Any] = {"split": split, "training_share": training_share(model)}
    chosen, _ = choose(inputs)
    if chosen is not None:
        detail |= summary(moments(chosen))
    if chosen is None or not has_features(chosen):
        detail.pop("input_spread", None)
    return detail
