"""The phases of a training, read off its recorded learning rates: warm-up, full rate, decay, and jumps between them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .memo import per_run
from .noise import scalar
from .run import Run

_FULL = 0.9
"""Share of the largest rate at which a warm-up counts as over."""

_DECAYED = 0.1
"""Share of the largest rate below which a rate counts as decayed."""

_JUMP = 1.5
"""Factor between the rates of neighbouring steps that makes a jump; schedules that glide stay below it."""


@dataclass(frozen=True, slots=True)
class Phases:
    """`full_from`: first step at (nearly) the full rate, None if the rate was still rising when the run ended.

    `rises`: steps at which the rate jumped up (restarts). `decayed_from`: the step from which on the rate stayed below
    a tenth of its largest, None if it did not. `zero_share`: share of the steps with a rate of zero.
    """

    first_step: int
    last_step: int
    full_from: int | None
    rises: tuple[int, ...]
    decayed_from: int | None
    peak: float
    zero_share: float

    @property
    def warmed_up(self) -> bool:
        """Whether the rate began lower than it became, rising."""
        return self.full_from is None or self.full_from > self.first_step

    def full(self) -> tuple[int, int]:
        """First and last step of the stretch that is neither warm-up nor decay; the last step if there is none."""
        first = self.last_step if self.full_from is None else self.full_from
        last = self.last_step if self.decayed_from is None else self.decayed_from - 1
        return first, max(first, last)


@per_run
def phases(run: Run) -> Phases | None:
    """The phases by the largest rate among the parameter groups; None where no rate was recorded."""
    rates = run.frame("steps", "lr_max").filter(pl.col("lr_max").is_finite() & (pl.col("lr_max") >= 0))
    if rates.is_empty():
        return None
    steps, rate = rates["step"], rates["lr_max"]
    peak = scalar(rate.max())
    full = rates.filter(pl.col("lr_max") >= _FULL * peak)["step"][0]
    high = rates.filter(pl.col("lr_max") >= _DECAYED * peak)["step"][-1]
    later = steps.filter(steps > high)
    return Phases(
        first_step=steps[0],
        last_step=steps[-1],
        full_from=_full_from(rates, full),
        rises=tuple(rates.filter(pl.col("lr_max") > _JUMP * pl.col("lr_max").shift())["step"]),
        decayed_from=None if later.is_empty() else later[0],
        peak=peak,
        zero_share=scalar((rate == 0).mean()),
    )


def _full_from(rates: pl.DataFrame, full: int) -> int | None:
    """The step at which the rate had risen to its full height; the first step where it fell before, or never rose."""
    change = rates["lr_max"].diff().drop_nulls()
    if not (change < 0).any() and bool((change.tail(max(1, rates.height // 20)) > 0).all()) and change.len():
        return None
    if (rates.filter(pl.col("step") <= full)["lr_max"].diff().drop_nulls() < 0).any():
        return int(rates["step"][0])
    return int(full)
