"""How the losses of the samples scatter around the loss of their batch."""

from __future__ import annotations

import torch

from ..context import Context
from ..schema import STEPS
from ..step import Step
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
        losses = [batch.losses for batch in step.micro_batches if batch.losses is not None]
        if len(losses) < len(step.micro_batches):
            self.context.explain(("steps.loss_var",), step.micro_batches[-1].reason)
            return
        count = sum(len(each) for each in losses)
        # a micro-batch's losses average to its share of the loss: over all samples they must average to the whole
        each = torch.cat([part * (count / len(part)) for part in losses])
        step.put("loss_count", count)
        if count > 1:
            step.put("loss_var", each.var())
