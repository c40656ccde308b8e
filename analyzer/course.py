"""How a metric of held-out data went, beside the training loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from .noise import Mean, batch_mean, scalar
from .progress import losses, measured
from .run import Run
from .validation import Metric


@dataclass(frozen=True, slots=True)
class Course:
    """How a metric went, so that less is better, beside the training loss.

    `best`: mean of the lowest stretch of three values; `end`: of the last ones. `since_best`, `since_gain`: share of
    the steps since the best, and since a value last was significantly better than the end. `reference`: the loss at the
    start. `comparable`: whether the metric is the training loss on other data, by its name and its size. `signed`:
    whether losses may be below zero, as those of a density are.
    """

    metric: Metric
    start: float
    best: Mean
    end: Mean
    best_step: int
    last_step: int
    since_best: float
    since_gain: float
    reference: float
    comparable: bool
    train_start: float
    train_at_best: Mean
    train_end: Mean
    signed: bool

    @property
    def lost(self) -> float:
        """The share of what had been gained at best that is lost at the end."""
        gained = self.start - self.best.value
        return (self.end.value - self.best.value) / gained if gained > 0 else math.inf

    def share_left(self, value: float) -> float:
        """The share of the loss at the start that a value is; 1 where the metric has no zero to compare with."""
        if not self.metric.falls or self.reference <= 0 or self.signed:
            return 1.0
        return value / self.reference


def course_of(run: Run, metric: Metric) -> Course | None:
    """The course of a metric; None where too few training losses stand beside it."""
    costs, train, progress = metric.costs, losses(run), measured(run)
    if train.height < 40:
        return None
    train_start = progress.start if progress else scalar(train["loss"].head(10).median())
    train_end = progress.end if progress else batch_mean(train["loss"].tail(max(20, train.height // 10)))
    values, steps = costs["value"], costs["step"]
    smooth = values.rolling_median(3, min_samples=1, center=True)
    best = int(smooth.arg_min() or 0)
    scatter = _scatter(values)
    around = values.slice(max(0, best - 1), 3)
    tail = values.tail(max(3, values.len() // 6))
    end = Mean(scalar(tail.mean()), scatter / math.sqrt(tail.len()))
    better = costs.filter(smooth > end.value + max(2 * scatter, 0.05 * abs(end.value)))["step"]
    first, last = int(train["step"][0]), int(train["step"][-1])
    span = max(1, last - first)
    start = float(values[0])
    comparable = metric.is_loss and train_start > 0 and 0.1 < start / train_start < 3
    return Course(
        metric=metric,
        start=start,
        best=Mean(scalar(around.mean()), scatter / math.sqrt(around.len())),
        end=end,
        best_step=int(steps[best]),
        last_step=int(steps[-1]),
        since_best=(last - int(steps[best])) / span,
        since_gain=(last - (int(better[-1]) if len(better) else first)) / span,
        reference=max(start, progress.reference if progress and comparable else start),
        comparable=comparable,
        train_start=train_start,
        train_at_best=_train_around(train, int(steps[best])),
        train_end=train_end,
        signed=progress is None,
    )


def _scatter(values: pl.Series) -> float:
    """Standard deviation of one value around the trend: from second differences of the later half, by the median."""
    later = values.tail(max(6, values.len() - values.len() // 3))
    second = (later.diff().diff().abs() * (1.4826 / math.sqrt(6))).drop_nulls()
    return max(scalar(second.median()), 1e-12)


def _train_around(train: pl.DataFrame, step: int) -> Mean:
    """The mean training loss of a tenth of the run around a step."""
    width = max(20, train.height // 10)
    position = int(train["step"].search_sorted(step))
    begin = max(0, min(position - width // 2, train.height - width))
    return batch_mean(train["loss"].slice(begin, width))
