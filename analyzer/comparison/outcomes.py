"""Which run did best: by a metric that they have in common, with an error where the run lets one be told."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ..noise import batch_mean, scalar
from ..validation import Metric, falls, metrics

if TYPE_CHECKING:
    from ..run import Run

_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class Goal:
    """What runs are ranked by: a logged metric of a split, or, where `name` is None, the training loss at the end.

    `falls`: whether less is better.
    """

    split: str
    name: str | None
    falls: bool

    def __str__(self) -> str:
        return f"best {self.split} {self.name}" if self.name else "training loss at the end"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run reached: `value` (None where it reached nothing finite), its error, and the step.

    `last` is the metric's last value. `error` is a standard error by the scatter of the values around their trend;
    infinite where it cannot be told.
    """

    value: float | None
    error: float = math.inf
    step: int | None = None
    last: float | None = None


def goal(runs: Sequence[Run]) -> Goal | None:
    """The metric to rank by. None if the runs have none in common, and no loss.

    A metric for which a target was set comes first, then what rises (an accuracy), then a loss; validation before test.
    """
    votes: Counter[tuple[str, str]] = Counter()
    known: dict[tuple[str, str], Metric] = {}
    for run in runs:
        for metric in _distinct(run):
            key = metric.split, metric.name
            votes[key] += 1
            known.setdefault(key, metric)
    wanted = {str(name) for run in runs for name in run.manifest.target}
    shared = [known[key] for key, amount in votes.items() if amount == len(runs)] or [
        known[key] for key, amount in votes.items() if amount > len(runs) / 2
    ]
    if shared:
        best = min(shared, key=lambda metric: (metric.name not in wanted, "test" in metric.split.lower(), metric.falls))
        return Goal(best.split, best.name, best.falls)
    if sum(run.has("steps", "loss") for run in runs) > len(runs) / 2:
        return Goal("", None, True)
    return None


def _distinct(run: Run) -> list[Metric]:
    """The metrics of held-out data, and those of other splits where there is none."""
    held_out = list(metrics(run))
    if held_out:
        return held_out
    rows = run.frame("metrics", "value").filter(pl.col("value").is_finite() & pl.col("step").is_not_null())
    groups = rows.partition_by("split", "name", maintain_order=True, as_dict=True)
    return [
        Metric(str(split), str(name), way, values.select("step", "value").sort("step"))
        for (split, name), values in groups.items()
        if (way := falls(str(name))) is not None
    ]


def outcome(run: Run, by: Goal) -> Outcome:
    """What a run reached."""
    if by.name is None:
        return _final_loss(run)
    rows = run.frame("metrics", "value").filter((pl.col("split") == by.split) & (pl.col("name") == by.name))
    values = rows.filter(pl.col("value").is_finite()).select("step", "value")
    if values.is_empty():
        return Outcome(None)
    position = values["value"].arg_min() if by.falls else values["value"].arg_max()
    best = values.row(position or 0)
    return Outcome(float(best[1]), _scatter(values["value"]), best[0], float(values["value"][-1]))


def _final_loss(run: Run) -> Outcome:
    """The mean loss of the last tenth of the steps, at least twenty of them."""
    frame = run.frame("steps", "loss").drop_nulls("loss")
    tail = frame.tail(max(20, frame.height // 10))
    if tail.is_empty() or not tail["loss"].is_finite().all():
        return Outcome(None)
    mean = batch_mean(tail["loss"])
    return Outcome(mean.value, mean.error, run.last_step, float(tail["loss"][-1]))


def _scatter(values: pl.Series) -> float:
    """Scatter of a single value around the trend of the last half; infinite for fewer than six values.

    By the median change from one to the next, or the mean square where most do not change at all.
    """
    changes = values.tail(max(6, values.len() // 2)).diff().drop_nulls()
    if values.len() < 6:
        return math.inf
    return (scalar(changes.abs().median()) * _MAD or scalar((changes**2).mean()) ** 0.5) / 2**0.5


def ranking(outcomes: Sequence[Outcome], by: Goal) -> list[int]:
    """Positions of the runs, the best first; those that reached nothing last."""

    def key(position: int) -> tuple[bool, float]:
        value = outcomes[position].value
        return value is None, math.inf if value is None else (value if by.falls else -value)

    return sorted(range(len(outcomes)), key=key)
