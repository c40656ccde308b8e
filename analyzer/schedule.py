"""What the recorded learning rates tell of a schedule: how soon it decayed, its cycles, its rhythm and the epochs."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .memo import per_run
from .noise import Mean, scalar, slope
from .run import Run

_ABRUPT = 3.0
"""Factor between the rates of neighbouring steps that ends a stage; schedules that glide stay below it."""

_SHORTEST = 20
"""Steps; a trend over fewer is noise."""


@dataclass(frozen=True, slots=True)
class Decay:
    """Where a rate fell below a share of its peak for good: at `step`, with `rest` of the run still to come.

    `fall` is how much of the loss was lost over the steps `window` right before it (a stage of the schedule, or the
    last quarter of what the rates add up to), with its standard error; `level` is the mean loss at its end. The rest of
    the run would have brought `worth` times as much, at that pace and the mean rate up to there.
    """

    step: int
    peak: float
    final: float
    rest: float
    steps: int
    window: tuple[int, int]
    fall: Mean
    level: float
    worth: float

    @property
    def missed(self) -> float:
        """What the rest of the run would have brought."""
        return self.fall.value * self.worth

    @property
    def missed_at_most(self) -> float:
        """The same at the upper end of what the scatter of the losses leaves open."""
        return (self.fall.value + 2 * self.fall.error) * self.worth


def rates(run: Run) -> pl.DataFrame:
    """`step` and `lr_max`, the largest rate among the parameter groups, where it was recorded and makes sense."""
    return run.frame("steps", "lr_max").filter(pl.col("lr_max").is_finite() & (pl.col("lr_max") >= 0))


@per_run
def decay(run: Run, share: float) -> Decay | None:
    """How the largest rate fell below that share of its peak and stayed there; None if it never did, or at once."""
    known = pl.col("lr_max").is_finite() & (pl.col("lr_max") >= 0) & pl.col("loss").is_finite()
    series = run.frame("steps", "lr_max", "loss").filter(known)
    peak = scalar(series["lr_max"].max()) if series.height else 0.0
    high = series.filter(pl.col("lr_max") >= share * peak)
    if peak <= 0 or high.is_empty() or high["step"][-1] == series["step"][-1]:
        return None
    last = int(high["step"][-1])
    after = series.filter(pl.col("step") > last)
    active = series.filter(pl.col("step") <= last)
    before = _window(active)
    trend = slope(before["step"], before["loss"])
    length = int(before["step"][-1]) - int(before["step"][0])
    fall = Mean(-trend.value * length, trend.error * length)
    worth = after.height * scalar(active["lr_max"].mean()) / scalar(before["lr_max"].sum())
    return Decay(
        step=int(after["step"][0]),
        peak=peak,
        final=float(after["lr_max"][-1]),
        rest=after.height / series.height,
        steps=after.height,
        window=(int(before["step"][0]), last),
        fall=fall,
        level=scalar(before["loss"].mean()) - fall.value / 2,
        worth=worth,
    )


def _window(before: pl.DataFrame) -> pl.DataFrame:
    """The steps right before a decay that tell whether the loss was still falling."""
    rate, total = pl.col("lr_max"), pl.col("lr_max").cum_sum()
    drops = before.filter(rate * _ABRUPT < rate.shift())
    stage = before.filter(pl.col("step") >= drops["step"][-1]) if drops.height else before
    late = before.filter(total >= 0.75 * total.last())
    chosen = stage if drops.height and stage.height < late.height else late
    return chosen if chosen.height >= _SHORTEST else before.tail(_SHORTEST)


def epoch_length(run: Run) -> float | None:
    """Steps of an epoch, by the metrics that were logged with an epoch; None if fewer than two epochs were."""
    logged = run.frame("metrics", "epoch").select("step", "epoch").drop_nulls().unique().sort("step", "epoch")
    logged = logged.group_by("epoch").agg(pl.col("step").min()).sort("epoch")
    if logged.height < 2:
        return None
    lengths = (logged["step"].diff() / logged["epoch"].diff()).drop_nulls()
    lengths = lengths.filter(lengths.is_finite() & (lengths > 0))
    return scalar(lengths.median()) if len(lengths) else None


def epoch_count(run: Run) -> int | None:
    """Epochs of the run, by its steps and the length of an epoch; None if that is not known."""
    length = epoch_length(run)
    return None if length is None else round(run.step_count / length)


def change_interval(run: Run) -> float | None:
    """Steps between changes of the rate, the median; None if it changed fewer than three times."""
    series = rates(run)
    changed = series.filter(pl.col("lr_max") != pl.col("lr_max").shift())["step"]
    return scalar(changed.diff().drop_nulls().median()) if len(changed) >= 3 else None


def cycles(run: Run, low: float = 0.02, high: float = 0.5) -> int:
    """How often the rate fell below a share `low` of its peak and came back above `high` of it."""
    series = rates(run)
    peak = scalar(series["lr_max"].max()) if series.height else 0.0
    if not peak > 0:
        return 0
    state = pl.when(pl.col("lr_max") >= high * peak).then(1).when(pl.col("lr_max") <= low * peak).then(0)
    states = series.select(state.forward_fill().drop_nulls().alias("state"))["state"]
    return int(states.diff().eq(1).sum())
