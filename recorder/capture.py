"""The input and the output gradient of modules, seen on probed steps through forward hooks and tensor hooks.

A call holds references to what the forward pass used and to the gradients that the backward pass made; nothing is
copied, unless all of it would take too much memory: then the first samples of it are. The bodies of the hooks never
raise. Hooks are gone when the step closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.utils.rnn import PackedSequence
from torch.utils.hooks import RemovableHandle

from .call import Call, sample_dimension, versions_of
from .graph import Walk
from .hooks import Hook, watched
from .nested import holds, leaves, mapped, tensors_in

State = tuple[tuple[Tensor, Tensor | None], dict[str, Tensor]]
"""Random numbers (on the CPU, on the device) and buffers of a module that is about to run."""


class Capture:
    """Watches some modules for one step at a time: `arm`, run forward and backward, `take`, `release`."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []
        self._calls: list[Call] = []
        self._tensor_handles: list[RemovableHandle] = []
        self._states: dict[nn.Module, list[State]] = {}
        self.armed = False
        self.listening = False
        """Whether the backward pass of the step runs: gradients that others ask for are none of it."""
        self.failure = ""
        """What went wrong in a hook of this step, if anything did."""
        self.keeps_edges = False
        """Whether calls are to say where their outputs are in the graph, so that other gradients can be had there."""
        self.overflowed = False
        """Whether the step would have held more than its limit of bytes; its calls were let go."""
        self.thorough = False
        """Whether outputs are looked at for being made of each other, as it is enough to do when a plan is made."""
        self.samples: int | None = None
        """Samples of the pass that is about to be differentiated."""
        self.share = 1.0
        """Share of the samples that is kept; halved whenever a step overflows."""
        self.hopeless = False
        """Whether even one sample was too much."""
        self._limit = 0
        self._storages: set[int] = set()
        self._held = 0

    def arm(
        self, modules: Iterable[nn.Module], replayed: Iterable[nn.Module], limit: int, thorough: bool = False
    ) -> None:
        """Place hooks on `modules`; for those in `replayed` the random state at their call is kept too."""
        self.thorough = thorough
        self._limit, self.overflowed, self.failure, self.armed = limit, False, "", True
        for module in modules:
            # before hooks of the user's, which may put something else in place of the output
            self._handles.append(module.register_forward_hook(Hook(self._seen), with_kwargs=True, prepend=True))
        for module in replayed:
            self._handles.append(module.register_forward_pre_hook(Hook(self._about_to_run)))

    def take(self) -> list[Call]:
        """The calls that the last backward pass reached. Others stay, in case a later pass reaches them."""
        if self.overflowed:
            return []
        reached = [call for call in self._calls if call.gradients]
        self._calls = [call for call in self._calls if not call.gradients]
        return reached

    def propagated(
        self, later: Sequence[Tensor], several: Sequence[Sequence[Tensor]]
    ) -> list[dict[Call, dict[int, Tensor]]]:
        """Gradients of the outputs of the calls seen so far, by position, given some gradients of tensors after them.

        The graph stays, and no other gradient is made, nor any hook of a parameter called. Like those of the backward
        pass they are held, and trimmed to the samples that are kept. Once a step: edges are gone afterwards.
        """
        pairs = [(call, position) for call in self._calls for position in call.edges]
        edges = [call.edges[position] for call, position in pairs]
        self.keeps_edges = False
        for call in self._calls:
            call.edges.clear()
        found = []
        for gradients in several if edges else ():
            results = torch.autograd.grad(later, edges, gradients, retain_graph=True, allow_unused=True)
            found.append(self._held_aside(pairs, results))
        return found

    def _held_aside(
        self, pairs: Sequence[tuple[Call, int]], gradients: Sequence[Tensor | None]
    ) -> dict[Call, dict[int, Tensor]]:
        found: dict[Call, dict[int, Tensor]] = {}
        for (call, position), gradient in zip(pairs, gradients, strict=True):
            if gradient is not None:
                kept = self._of_first(call, position, gradient.detach())
                found.setdefault(call, {})[position] = kept
                self._count(kept)
        return found

    @property
    def kept(self) -> int | None:
        """Samples of the present pass that are kept."""
        return None if self.samples is None else max(1, int(self.samples * self.share))

    def disarm(self) -> None:
        """Remove the module hooks; gradients of calls already seen still arrive."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def release(self) -> None:
        """Remove everything and let go of what is held."""
        self.disarm()
        for handle in self._tensor_handles:
            handle.remove()
        self._tensor_handles.clear()
        self._calls.clear()
        self._states.clear()
        self._storages.clear()
        self.armed, self.keeps_edges, self.samples, self._held = False, False, None, 0

    def _about_to_run(self, module: nn.Module, _args: Any) -> None:
        if not watched() or self.overflowed:
            return
        try:
            device = next((p.device for p in module.parameters()), torch.device("cpu"))
            on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
            buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
            self._states.setdefault(module, []).append(((torch.get_rng_state(), on_device), buffers))
        except RuntimeError:  # under CUDA graph capture there is no state to read: the module stays uncovered
            return

    def _seen(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if not watched() or self.overflowed:
            return
        try:
            with torch._C.DisableTorchFunction():
                self._note(module, args, kwargs, output)
        except Exception as error:  # never the reason that a forward pass fails: without the call, no value
            self._fail(error)

    def _note(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        states = self._states.get(module)
        random_state, buffers = states.pop() if states else (None, None)
        found = {id(t): (i, t) for i, t in enumerate(leaves(output)) if isinstance(t, Tensor) and t.requires_grad}
        differentiable = list(found.values())
        if not differentiable:
            return
        given = tensors_in(args, kwargs)
        shapes = {i: tuple(t.shape) for i, t in differentiable}
        given_shapes = tuple(tuple(t.shape) for t in given if not isinstance(t, nn.Parameter))
        inputs = mapped(_detached, args), mapped(_detached, kwargs)
        call = Call(module, *inputs, next(iter(shapes.values())), shapes, given_shapes, random_state=random_state)
        call.buffers = buffers
        call.packed = holds(PackedSequence, args, kwargs, output)
        call.nested = self.thorough and _nested([t for _, t in differentiable])
        call.versions = versions_of(given)
        self._calls.append(call)
        for position, tensor in differentiable:
            arrived = partial(self._arrived, call, position)
            self._tensor_handles.append(tensor.register_hook(arrived))
            if self.keeps_edges:
                call.edges[position] = get_gradient_edge(tensor)

    def _arrived(self, call: Call, position: int, gradient: Tensor) -> None:
        """An output's gradient arrived. Until now autograd held the input for itself; from now on we do."""
        if not self.listening or not self.armed or self.overflowed:
            return
        try:
            held = call.gradients.get(position)
            call.gradients[position] = gradient.detach() if held is None else held + gradient.detach()
            if self.share < 1.0:
                self._trim(call, position)
            for tensor in (call.gradients[position], *tensors_in(call.args, call.kwargs)):
                self._count(tensor)
        except Exception as error:  # as above
            self._fail(error)

    def _trim(self, call: Call, position: int) -> None:
        """Keep copies of the first samples only; of an input that its module averages over, all."""
        call.gradients[position] = self._of_first(call, position, call.gradients[position])
        if not isinstance(call.module, nn.modules.batchnorm._BatchNorm):
            intact = call.intact
            call.args, call.kwargs = (mapped(partial(self._first, call.module), v) for v in (call.args, call.kwargs))
            call.versions = versions_of(tensors_in(call.args, call.kwargs)) if intact else (-1,)

    def _first(self, module: nn.Module, value: Any) -> Any:
        samples = self.samples
        dimension = sample_dimension(module, value.shape, samples) if isinstance(value, Tensor) and samples else None
        return self._narrowed(value, dimension)

    def _of_first(self, call: Call, position: int, gradient: Tensor) -> Tensor:
        if self.share == 1.0 or self.samples is None:
            return gradient
        narrowed: Tensor = self._narrowed(gradient, call.dimension_of(position, self.samples))
        return narrowed

    def _narrowed(self, value: Any, dimension: int | None) -> Any:
        """A copy of the first samples, along a dimension; all of it where there is none."""
        samples, kept = self.samples, self.kept
        if dimension is None or samples is None or kept is None:
            return value
        return value.narrow(dimension, 0, kept * (value.shape[dimension] // samples)).clone()

    def _count(self, tensor: Tensor) -> None:
        """Add up what is held, each storage once."""
        if self.overflowed or tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages.add(storage.data_ptr())
            self._held += storage.nbytes()
        if self._held > self._limit:
            self.hopeless = self.kept in (None, 1)
            self.share /= 2
            self._let_go()

    def _fail(self, error: Exception) -> None:
        self.failure = f"{type(error).__name__} in a hook: {str(error).splitlines()[0] if str(error) else ''}"[:200]
        self._let_go()

    def _let_go(self) -> None:
        self.overflowed = True
        self._calls.clear()


def _detached(item: Any) -> Any:
    return item.detach() if isinstance(item, Tensor) else item


def _nested(outputs: Sequence[Tensor]) -> bool:
    """Whether one of the outputs of a call was made of another."""
    nodes = {tensor.grad_fn for tensor in outputs}
    return len(nodes) > 1 and any(node in nodes for start in nodes for node in islice(Walk(start), 1, None))
