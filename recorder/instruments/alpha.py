"""Ingredients of alpha, the normalised step length: slopes along the update at both of its ends, with their scatter.

Mahsereci & Hennig 2017; Schneider, Dangel & Hennig 2021, section 2.1. The analyzer fits the parabola.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..context import Context
from ..precision import widest
from ..schema import STEPS
from ..step import Step
from .base import Instrument


class Alpha(Instrument):
    """Projections of the individual gradients on the update of this step and on that of the previous one.

    The update of a probed step is kept until the next step has been differentiated: its gradients are the far end.
    """

    name = "alpha"
    columns = (
        STEPS["start_slope"],
        STEPS["start_slope_var"],
        STEPS["end_slope"],
        STEPS["end_slope_var"],
        STEPS["end_slope_total"],
        STEPS["slope_count"],
    )
    needs_layers = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._previous: list[Tensor] | None = None
        """Update of the step before this one, if that was probed and its optimizer stepped."""
        self._update: list[Tensor] | None = None
        self._updated_at = -1

    def wants(self, index: int, probed: bool) -> bool:
        return (probed or self._previous is not None) and not self.context.capture.hopeless

    def begin(self, step: Step) -> None:
        if self._updated_at != step.index - 1:
            self._remember(None)

    @torch.no_grad()
    def after_backward(self, step: Step) -> None:
        """g.d of the previous update from the gradient itself, which sees what no layer shows: penalties, tied uses."""
        gradient = self.context.gradient
        if self._previous is None or gradient is None or not self.context.passes.complete:
            return
        dots = [_dot(g, d) for g, d in zip(gradient, self._previous, strict=True)]
        step.put("end_slope_total", torch.stack([dot.to(dots[0].device) for dot in dots]).sum())

    def after_update(self, step: Step) -> None:
        self._update = self.context.update if self.name in step.probing else None
        self.context.passes.ask("start", self._update)
        self.context.passes.ask("end", self._previous)

    def collect(self, step: Step) -> None:
        before = self.context.values_at_calls()
        for end in ("start", "end"):
            each = self.context.passes.answer(end, before)
            if each is not None:
                _put(step, end, each if step.scale is None else each / step.scale)
        self._remember(self._update)
        self._updated_at = step.index

    def _remember(self, update: list[Tensor] | None) -> None:
        self._previous, self.context.update_pending = update, update is not None


def _put(step: Step, end: str, each: Tensor) -> None:
    """Mean and variance of the projections at one end of an update."""
    step.put("slope_count", len(each))
    step.put(f"{end}_slope", each.mean())
    if len(each) > 1:
        step.put(f"{end}_slope_var", each.var())


def _dot(gradient: Tensor, direction: Tensor) -> Tensor:
    """Inner product of two tensors of any shape, 0-d, in float64 where the device has it."""
    product = torch.dot(gradient.reshape(-1), direction.reshape(-1))
    return product.to(widest(product.device))
