"""How the losses of the samples scatter around the loss of their batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..context import Context
from ..schema import STEPS
from ..step import MicroBatch, Step
from .base import Instrument


class IndividualLosses(Instrument):
    """Variance of the individual losses, of all micro-batches of the step together.

    Looked at also one step after each probe: alpha weighs the losses at both ends of the update.
    """

    name = "individual-losses"
    columns = (STEPS["loss_var"], STEPS["loss_count"])
    serves = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._probed_at = -2

    def wants(self, index: int, probed: bool) -> bool:
        """At probed steps and the ones that follow them."""
        return probed or index == self._probed_at + 1

    def begin(self, step: Step) -> None:
        if step.probed:
            self._probed_at = step.index

    def after_backward(self, step: Step) -> None:
        losses, reason = losses_of(step.micro_batches)
        if reason:
            self.context.explain(("steps.loss_var",), reason)
            return
        count = sum(len(each) for each in losses)
        # a micro-batch's losses average to its share of the loss: over all samples they must average to the whole
        each = torch.cat([part * (count / len(part)) for part in losses])
        step.put("loss_count", count)
        if count > 1:
            step.put("loss_var", each.var())


def losses_of(micro_batches: Sequence[MicroBatch]) -> tuple[list[Tensor], str]:
    """The individual losses (samples,) of each forward pass, its backward passes added up; or why they are unknown."""
    found: list[Tensor] = []
    for batch in micro_batches:
        if batch.losses is None:
            return [], batch.reason
        if not batch.again or not found:
            found.append(batch.losses)
        elif found[-1].shape == batch.losses.shape:
            found[-1] = found[-1] + batch.losses
        else:
            return [], "the losses of one forward pass belong to different numbers of samples"
    return found, ""
