"""Whether the output layer of a regression can reach its targets at all: what bounds the predictions, if anything."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .noise import scalar
from .progress import prediction_spread
from .run import Run

_BEYOND = 0.15
"""Share of the range of the targets that must lie beyond a bound."""

_NEAR = 0.05
"""How close to a bound the predictions must come, in units of the bounded range, to be pressed against it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """`layer` is what bounds predictions so; `beyond` the share of the range of the targets that lies outside."""

    layer: str
    low: float
    high: float
    beyond: float
    target_low: float
    target_high: float


def out_of_reach(run: Run) -> Bound | None:
    """The bound that the predictions press against though targets lie beyond it; None if there is none.

    A bound is one of ReLU, sigmoid and tanh: no prediction at any probe lies outside of it, and at most probes of the
    second half one lies right at the side beyond which targets are.
    """
    if prediction_spread(run) is None:
        return None
    names = ("prediction_min", "prediction_max", "target_min", "target_max")
    frame = run.frame("steps", *names).drop_nulls().filter(pl.all_horizontal(pl.col(names).is_finite()))
    low, high = scalar(frame["prediction_min"].min()), scalar(frame["prediction_max"].max())
    targets = scalar(frame["target_min"].min()), scalar(frame["target_max"].max())
    late = frame.tail(max(1, frame.height // 2))
    lowest, highest = scalar(late["prediction_min"].median()), scalar(late["prediction_max"].median())
    span = targets[1] - targets[0]
    for layer, bottom, top in (("sigmoid", 0.0, 1.0), ("ReLU", 0.0, None), ("tanh", -1.0, 1.0)):
        if frame.height < 10 or low < bottom or (top is not None and high > top) or not span > 0:
            continue
        below = (bottom - targets[0]) / span
        above = (targets[1] - top) / span if top is not None else 0.0
        width = (top - bottom) if top is not None else 0.0
        pressed = (below > _BEYOND and lowest <= bottom + _NEAR * width) or (
            top is not None and above > _BEYOND and highest >= top - _NEAR * width
        )
        if pressed:
            outside = max(0.0, below) + max(0.0, above)
            return Bound(layer, bottom, float("inf") if top is None else top, outside, *targets)
    return None
