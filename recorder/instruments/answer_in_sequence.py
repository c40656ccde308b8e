"""Answer in a sequence: whether a model that foretells a sequence is given what it foretells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..output_hooks import OutputHooks
from ..schema import STEPS
from ..unnoticed import unnoticed
from .base import Instrument
from .loss_input import class_dim, holds_classes

if TYPE_CHECKING:
    from ..context import Context
    from ..step import Step

SHORTEST = 4
"""Positions of the shortest sequence that is looked at."""
TARGETS = 64
"""Targets in a batch; of fewer, some may equal inputs by chance."""
CALLS = 32
"""Calls of layers that are kept; what the model is given goes into the first ones."""
LOOKS = (0, 50)
"""Probes at which it looks: a branch that starts at zero passes nothing on at first."""
_COLUMNS = ("sequence_here", "sequence_next", "sequence_later")


class AnswerInSequence(Instrument):
    """Compares targets with inputs by position, and differentiates an output in what was made of later inputs.

    Twice a run: it is the program that shifts and masks, not a batch. Batch norms in training mode look at all
    positions on purpose: with them only the comparison is made. (Karpathy, A recipe for training neural networks, 2019:
    use backprop to chart dependencies.)
    """

    name = "answer-in-sequence"
    columns = tuple(STEPS[column] for column in _COLUMNS)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = OutputHooks()
        self._calls: list[_Call] = []
        self._looks = False
        self._probes = 0
        if not context.hooks:
            self.explain("compiled")

    def begin(self, step: Step) -> None:
        """Watch the first layers, at two probes."""
        self.end(step)
        self._looks = self.context.hooks and self._probes in LOOKS
        self._probes += 1
        if self._looks:
            for module in self.context.model.modules():
                if not any(module.children()) and any(True for _ in module.parameters()):
                    self._hooks.place_with_input(module, self._note)

    def before_backward(self, step: Step) -> None:
        """The forward pass is over, and its graph is there."""
        if not self._looks or step.described is None:
            return
        target, graphs = step.described.target, [call.arguments for call in step.loss_calls]
        prediction = next((v for v in graphs[-1].values() if isinstance(v, Tensor)), None) if graphs else None
        if target is None or prediction is None or len(graphs) > 1:
            self.explain("no loss, or more than one, was seen comparing a prediction with a target")
            return
        ignored = step.described.ignore_index
        name = step.described.loss_name
        found = [self._compared(one, prediction, name, ignored) for one in alignments(step.described.inputs, target)]
        if not found:
            self.explain("the targets are no sequences in step with an input")
            return
        table = torch.stack([torch.stack(row) for row in found])
        best = table.index_select(0, table[:, :2].amax(1).argmax(0, keepdim=True)).squeeze(0)
        for column, value in zip(_COLUMNS, best, strict=True):
            step.put(column, value)

    def leave(self, step: Step) -> None:
        self._hooks.remove()

    def end(self, step: Step) -> None:
        """Let go of the graph."""
        self._calls = []
        self._hooks.close()

    def _note(self, _module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        differentiable = isinstance(output, Tensor) and output.requires_grad
        if differentiable and given and isinstance(given[0], Tensor) and len(self._calls) < CALLS:
            self._calls.append(_Call(given[0].data_ptr(), tuple(given[0].shape), output))

    def _compared(
        self, one: Alignment, prediction: Tensor, name: str | None, ignored: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Shares of the targets that are in the input here and at the next position, and of the gradient later on."""
        here, following = equal_share(one, 0, ignored), equal_share(one, 1, ignored)
        try:
            later = self._later(one, prediction, name)
        except RuntimeError as error:  # hooks that would be called, a graph that is gone
            self.context.explain(("steps.sequence_later",), str(error))
            later = None
        return here, following, torch.full_like(here, torch.nan) if later is None else later.to(here.dtype)

    def _later(self, one: Alignment, prediction: Tensor, name: str | None) -> Tensor | None:
        """Share of the gradient of the output before the middle that falls on inputs from the middle on, 0-d."""
        if any(isinstance(module, _BatchNorm) and module.training for module in self.context.model.modules()):
            self.context.explain(("steps.sequence_later",), "batch norms look at all positions on purpose")
            return None
        outputs = by_position(prediction, one, name)
        first = next((found for call in self._calls if (found := call.of(one)) is not None), None)
        if outputs is None or first is None:
            return None
        made, dim = first
        middle = one.length // 2
        before = outputs.narrow(one.dim, middle - 1, 1).float()
        unequal = torch.linspace(1, 2, before.shape[-1], device=before.device)  # sums over classes may be constant
        with unnoticed(self.context.model, before.device), torch._C.DisableTorchFunction():
            (gradient,) = torch.autograd.grad((before * unequal).sum(), made, retain_graph=True, allow_unused=True)
        if gradient is None:
            return None
        return share_from(gradient, dim, middle)


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """An input of the model and the targets in step with it: both (samples, positions, ...), or positions first.

    `dim`: the dimension of the positions. `length`: positions that have a target. `given`: the input as it came.
    """

    given: Tensor
    values: Tensor
    target: Tensor
    dim: int

    @property
    def length(self) -> int:
        return self.target.shape[self.dim]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """What a layer was given, by its memory and shape, and what it made of it."""

    pointer: int
    shape: tuple[int, ...]
    output: Tensor

    def of(self, one: Alignment) -> tuple[Tensor, int] | None:
        """The output and its dimension of positions, if it is the input of the alignment that was given."""
        if self.pointer != one.given.data_ptr():
            return None
        lengths = (one.given.shape[one.dim], one.given.shape[one.dim] - 1)  # the last may be cut off inside
        same = self.shape[:2] == tuple(one.given.shape[:2])
        order = (one.dim, 1 - one.dim, *range(2, len(self.shape))) if same else range(len(self.shape))
        for dim in order:
            fits = dim < self.output.dim() and self.shape[dim] in lengths and self.output.shape[dim] == self.shape[dim]
            if fits and (same or dim > 0 or one.dim == 1):
                return self.output, dim
        return None


def alignments(inputs: tuple[Tensor, ...], target: Tensor) -> Iterator[Alignment]:
    """The inputs that targets may be in step with, each with positions second, and first."""
    for given in inputs:
        values = as_values(given, target)
        if values is None or values.numel() < TARGETS:
            continue
        for dim in (1, 0):
            for cut in (0, 1):
                shape = list(values.shape)
                shape[dim] -= cut
                flat = target.dim() == 1 and holds_classes(target)
                if shape[dim] < SHORTEST or target.numel() != values.numel() // values.shape[dim] * shape[dim]:
                    continue
                if flat or list(target.shape[:2]) == shape[:2]:
                    yield Alignment(given, values, target.reshape(shape), dim)


def as_values(given: Tensor, target: Tensor) -> Tensor | None:
    """The input in the form of the target: classes of one-hot vectors, a single feature without its dimension."""
    if given.layout != torch.strided or given.is_nested or given.dim() < 2 or given.dtype == torch.bool:
        return None
    if holds_classes(target) and given.is_floating_point() and given.dim() == 3:
        return given.argmax(-1)
    dims = (2,) if holds_classes(target) else (2, 3)
    return given if given.dim() in dims and (holds_classes(target) or given.is_floating_point()) else None


def equal_share(one: Alignment, lag: int, ignored: int | None) -> Tensor:
    """Share of the targets that equal the input `lag` positions further on, 0-d, in float32."""
    count = min(one.length, one.values.shape[one.dim] - lag)
    target = one.target.narrow(one.dim, 0, count)
    values = one.values.narrow(one.dim, lag, count)
    if not target.is_floating_point():
        counted = (target >= 0) & (target != (-1 if ignored is None else ignored))
        return ((values == target) & counted).sum() / counted.sum().clamp(min=1)
    near = (values - target).abs() <= 1e-5 * target.abs().amax()
    return near.float().mean()


def by_position(prediction: Tensor, one: Alignment, name: str | None) -> Tensor | None:
    """The prediction as (samples, positions, outputs), or positions first; None if not in step with the target."""
    lead = one.target.shape[:2]
    dim = class_dim(prediction, one.target, name)
    if dim is not None and dim != prediction.dim() - 1:
        prediction = prediction.movedim(dim, -1)
    if prediction.numel() % lead.numel() or prediction.numel() == 0:
        return None
    in_step = prediction.shape[:2] == lead or prediction.shape[0] == lead.numel()
    return prediction.reshape(*lead, -1) if in_step else None


def share_from(gradient: Tensor, dim: int, first: int) -> Tensor:
    """Share of a gradient, by its norm, at positions from `first` on along a dimension, 0-d."""
    squares = gradient.detach().float().square()
    later = squares.narrow(dim, first, squares.shape[dim] - first).sum()
    return (later / squares.sum().clamp_min(torch.finfo(squares.dtype).tiny)).sqrt()
