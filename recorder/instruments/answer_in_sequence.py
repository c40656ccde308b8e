"""Answer in a sequence: whether a model that foretells a sequence is given what it foretells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from ..alignment import Alignment, alignments, by_position, equal_share
from ..call import time_first
from ..output_hooks import OutputHooks
from ..schema import STEPS
from ..tensors import readable
from ..unnoticed import unnoticed
from .base import Instrument
from .sample_mixing import share_beyond

if TYPE_CHECKING:
    from ..context import Context
    from ..losses import LossCall
    from ..step import MicroBatch, Step

CALLS = 32
"""Calls of layers that are kept; what the model is given goes into the first ones."""
LOOKS = (0, 50)
"""Probes at which it looks: a branch that starts at zero passes nothing on at first."""
_COLUMNS = ("sequence_here", "sequence_next", "sequence_later", "sequence_mixing")


class AnswerInSequence(Instrument):
    """Compares targets with inputs by position, and differentiates an output in what was made of the input.

    Of the gradient of one position of one sample nothing should fall on later positions, where they hold the target,
    nor on other samples. Twice a run: it is the program that shifts and masks, not a batch. Batch, group and instance
    norms look at all positions on purpose: with them only the comparison is made. What is mixed within the very first
    layer is not seen. (Karpathy, A recipe for training neural networks, 2019: use backprop to chart dependencies.)
    """

    name = "answer-in-sequence"
    columns = tuple(STEPS[column] for column in _COLUMNS)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = OutputHooks()
        self._calls: list[_Call] = []
        self._looks = False
        self._probes = 0
        self._by_time = any(time_first(module) for module in context.model.modules())
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
        """The forward pass of the first micro-batch is over, and its graph is there."""
        if self._looks:
            self._look(step)
            self._looks, self._calls = False, []
            self._hooks.remove()

    def leave(self, step: Step) -> None:
        self._hooks.remove()

    def end(self, step: Step) -> None:
        """Let go of the graph."""
        self._calls = []
        self._hooks.close()

    def _note(self, _module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        differentiable = isinstance(output, Tensor) and output.requires_grad and readable(output)
        plain = bool(given) and isinstance(given[0], Tensor) and readable(given[0])
        if differentiable and plain and len(self._calls) < CALLS:
            self._calls.append(_Call(given[0].data_ptr(), given[0].shape, given[0].stride(), output))

    def _look(self, step: Step) -> None:
        batch, calls = step.micro_batch, step.loss_calls
        if batch is None or batch.target is None or len(calls) != 1:
            self.explain("no loss, or more than one, was seen comparing a prediction with a target")
            return
        aligned = alignments(batch.inputs, batch.target, by_time=self._by_time)
        found = [torch.stack(self._compared(one, batch, calls[0])) for one in aligned]
        if not found:
            self.explain("the targets are no sequences in step with an input")
            return
        table = torch.stack(found)
        score = table[:, :2].amax(1) - 0.5 * table[:, 2].isnan()
        score = score - 1e-6 * torch.arange(len(found), device=table.device)  # positions are mostly second
        best = table.index_select(0, score.argmax(0, keepdim=True)).squeeze(0)
        for column, value in zip(_COLUMNS, best, strict=True):
            step.put(column, value)

    def _compared(self, one: Alignment, batch: MicroBatch, call: LossCall) -> list[Tensor]:
        """Shares of the targets that are in the input here and at the next position, and of the gradient elsewhere."""
        here, following = equal_share(one, 0, batch.ignore_index), equal_share(one, 1, batch.ignore_index)
        try:
            elsewhere = self._elsewhere(one, call)
        except RuntimeError as error:  # hooks that would be called, a graph that is gone
            self._unknown(str(error))
            elsewhere = None
        unknown = torch.full_like(here, torch.nan)
        return [here, following, *(elsewhere or (unknown, unknown))]

    def _elsewhere(self, one: Alignment, call: LossCall) -> tuple[Tensor, Tensor] | None:
        """Shares of the gradient of one output on later positions, and on other samples, each 0-d.

        The output is that of the last sample at the position before the middle.
        """
        if any(_over_positions(module) for module in self.context.model.modules()):
            self._unknown("norms look at all positions on purpose")
            return None
        outputs = None if call.output is None else by_position(call.output, one, call.name)
        first = next((found for kept in self._calls if (found := kept.of(one)) is not None), None)
        if outputs is None or first is None:
            self._unknown("no layer was seen that is given the input")
            return None
        made, position_dim, sample_dim = first
        middle = one.length // 2
        output = outputs.narrow(one.dim, middle - 1, 1).narrow(1 - one.dim, outputs.shape[1 - one.dim] - 1, 1).float()
        unequal = torch.linspace(1, 2, output.shape[-1], device=output.device)  # sums over classes may be constant
        with unnoticed(self.context, output, recompute=False), torch._C.DisableTorchFunction():
            (gradient,) = torch.autograd.grad((output * unequal).sum(), made, retain_graph=True, allow_unused=True)
        if gradient is None:
            self._unknown("the output does not depend on the layer that is given the input")
            return None
        last = gradient.shape[sample_dim] - 1
        return share_beyond(gradient, position_dim, slice(0, middle)), share_beyond(
            gradient, sample_dim, slice(last, None)
        )

    def _unknown(self, reason: str) -> None:
        self.context.explain(("steps.sequence_later", "steps.sequence_mixing"), reason)


def _over_positions(module: nn.Module) -> bool:
    """Whether a module takes means over the positions of a sequence."""
    return isinstance(module, (nn.GroupNorm, _InstanceNorm)) or (isinstance(module, _BatchNorm) and module.training)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """What a layer was given, by its memory, shape and strides, and what it made of it."""

    pointer: int
    shape: torch.Size
    strides: tuple[int, ...]
    output: Tensor

    def of(self, one: Alignment) -> tuple[Tensor, int, int] | None:
        """The output, its dimensions of positions and of samples, if the layer was given the input of the alignment.

        A view keeps the strides of the dimensions that it moves.
        """
        if self.pointer != one.given.data_ptr():
            return None
        positions, samples = self._place(one, one.dim, cut=True), self._place(one, 1 - one.dim, cut=False)
        if positions is None or samples is None or positions == samples:
            return None
        return self.output, positions, samples

    def _place(self, one: Alignment, dim: int, *, cut: bool) -> int | None:
        """Where a dimension of the input is in what the layer was given, and made. The last position may be cut off."""
        length, stride = one.given.shape[dim], one.given.stride(dim)
        lengths = (length, length - 1) if cut else (length,)
        for place, size in enumerate(self.shape):
            kept = place < self.output.dim() and self.output.shape[place] == size
            if kept and size in lengths and self.strides[place] == stride:
                return place
        return None
