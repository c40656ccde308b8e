"""The usual rules for spikes of the loss: OLMo-core, Lightning, KillLossSpike (llm-foundry), trainscope's z-score."""

from __future__ import annotations

import polars as pl
from zoo.rivals.base import Rule, contender, first, loss, needed

from analyzer.run import Run

NAMES = ("spike", "diverged")
_LOSS = pl.col("loss")


def olmo(run: Run) -> int | None:
    """The loss or the gradient's norm is 6 deviations above the mean of the last 128 steps, once there are 64."""
    frame = needed(run, "steps", "loss")
    frame = frame if not run.has("steps", "grad_norm") else run.frame("steps", "loss", "grad_norm")
    columns = [pl.col(name) for name in frame.columns if name != "step"]
    spikes = [(each - _mean(each)) > 6 * _deviation(each) + 1e-9 * _mean(each).abs() for each in columns]
    return first(frame, pl.any_horizontal(spikes))


def _mean(column: pl.Expr) -> pl.Expr:
    return column.shift(1).rolling_mean(128, min_samples=64)


def _deviation(column: pl.Expr) -> pl.Expr:
    """Zero but for rounding where the column is constant."""
    return column.shift(1).rolling_std(128, min_samples=64)


def lightning(run: Run) -> int | None:
    """The loss is not finite, or more than 200 % above the mean of the last 10 steps, after the first."""
    mean = _LOSS.shift(1).rolling_mean(10, min_samples=1)
    return first(loss(run), ~_LOSS.is_finite() | ((_LOSS - mean) > 2 * mean.abs()))


def kill_loss_spike(run: Run) -> int | None:
    """The loss is at least twice the mean of the window before, more than 4 times on end."""
    window = max(100, run.step_count // 20)
    high = (2 * _LOSS.shift(1).rolling_mean(window) <= _LOSS).cast(pl.Int64).rolling_sum(5)
    return first(loss(run).with_columns(high.alias("high")), pl.col("high") == 5)


def trainscope(run: Run) -> int | None:
    """The loss is 3.5 robust deviations above the median of the last 200 steps, once there are 30."""
    before = _LOSS.shift(1)
    median = before.rolling_median(200, min_samples=30)
    spread = 1.4826 * (before - median).abs().rolling_median(200, min_samples=30)
    return first(loss(run), (_LOSS - median) > 3.5 * spread)


OLMO = contender((Rule("OLMo", NAMES, olmo),), {})
LIGHTNING = contender((Rule("Lightning", NAMES, lightning),), {})
KILL_LOSS_SPIKE = contender((Rule("KillLossSpike", NAMES, kill_loss_spike),), {})
TRAINSCOPE = contender((Rule("trainscope z", NAMES, trainscope),), {})
