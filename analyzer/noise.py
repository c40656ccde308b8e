"""Means of noisy series: what a mini-batch loss says only holds for the mean of many, with its standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

SHORTEST_BLOCK = 20
"""Steps; with fewer, the mean of a block of mini-batch losses is itself noise."""

_MAD = 1.4826
"""From the median of absolute deviations to the standard deviation of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its standard error, in the unit of the series."""

    value: float
    error: float

    def exceeds(self, other: Mean, errors: float) -> bool:
        """Whether it lies above another by more than so many standard errors of their difference."""
        return self.value - other.value > errors * math.hypot(self.error, other.error)


def block_length(count: int) -> int:
    """Steps in a block, of a series with so many: a hundredth, but no fewer than 20."""
    return max(SHORTEST_BLOCK, count // 100)


def blocks(series: pl.DataFrame, value: str, length: int) -> pl.DataFrame:
    """The series in successive blocks of rows: `first_step`, `last_step`, `mean`, `upper`, `noise`, `rows`.

    `series` has the columns `step` and `value`, sorted by step. `upper` is the upper quartile. `noise` is the standard
    deviation of one value around a trend: that of the differences of neighbours over the square root of two, by the
    median, so that neither a slope nor a jump counts. A last block shorter than half a length joins the one before.
    """
    row = pl.int_range(pl.len())
    last = max(0, (series.height + length // 2) // length - 1)
    difference = pl.col(value).diff().abs() * (_MAD / 2**0.5)
    return (
        series.lazy()
        .filter(pl.col(value).is_not_null())
        .with_columns((row // length).clip(upper_bound=last).alias("block"), difference.alias("difference"))
        .group_by("block", maintain_order=True)
        .agg(
            pl.col("step").first().alias("first_step"),
            pl.col("step").last().alias("last_step"),
            pl.col(value).mean().alias("mean"),
            pl.col(value).quantile(0.75, "lower").alias("upper"),
            pl.col("difference").median().alias("noise"),
            pl.len().alias("rows"),
        )
        .drop("block")
        .collect()
    )


def batch_mean(values: pl.Series, parts: int = 10) -> Mean:
    """The mean of a series, its standard error by the method of batch means, which autocorrelation does not fool.

    The error of fewer than two parts' worth of values is infinite: such a mean proves nothing.
    """
    values = values.drop_nulls()
    if values.len() < 2 * parts:
        return Mean(scalar(values.mean()), math.inf)
    part = pl.int_range(pl.len()) * parts // pl.len()
    means = values.to_frame("value").group_by(part.alias("part")).agg(pl.col("value").mean())["value"]
    return Mean(scalar(values.mean()), scalar(means.std()) / parts**0.5)


def scalar(value: object) -> float:
    """What polars returns for an aggregate as a number: NaN, which no comparison finds true, for None."""
    return float(value) if isinstance(value, (int, float)) else math.nan


def slope(x: pl.Series, y: pl.Series) -> Mean:
    """The least-squares slope of y over x and its standard error; the error of fewer than four points is infinite."""
    frame = pl.DataFrame({"x": x.cast(pl.Float64), "y": y.cast(pl.Float64)}).drop_nulls()
    xs, ys = frame["x"] - frame["x"].mean(), frame["y"] - frame["y"].mean()
    spread = scalar((xs * xs).sum())
    if frame.height < 4 or not spread > 0:
        return Mean(0.0, math.inf)
    value = scalar((xs * ys).sum()) / spread
    residual = ys - value * xs
    return Mean(value, math.sqrt(scalar((residual * residual).sum()) / (frame.height - 2) / spread))
