"""Where two series of noisy values part: the first block of steps whose means differ by more than noise makes them.

The difference of the runs at the steps they share is cut into blocks. A block parts them if its mean is many of its
standard errors from zero and not small, neither in itself nor beside the scatter of single values; the next block must
confirm it. The error of a block's mean is the larger of two: by the scatter of single values around their trend, and by
that of the means of its quarters, which values that hang together do not fool.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import polars as pl

from .measures import Series

ERRORS = 5.0
"""Standard errors of a block's mean that are no chance: blocks and measures are many, and errors are estimates."""

SCATTERS = 1.0
"""Scatters of a single value that a difference must have to matter."""

LEAST_FACTOR, LEAST_SHARE = 1.25, 0.1
"""Differences that never matter: a factor, or a share of the range that both runs cover."""

FEWEST = 8
"""Steps in common with fewer of which nothing is told."""

_MAD = 1.4826

Outcome = Literal["equal", "together", "apart", "too few"]


@dataclass(frozen=True, slots=True)
class Parting:
    """How two series relate. `equal`: to the last digit; `together`: within noise; `apart` from `step` to `until` on.

    `one` and `other` are their means in that block; `step` and means are None unless they are apart. `steps`: how many
    they share.
    """

    outcome: Outcome
    steps: int
    step: int | None = None
    until: int | None = None
    one: float | None = None
    other: float | None = None
    size: float = 0.0
    """The difference in scatters of a single value; infinite where only one of them is finite."""


def parting(one: Series, other: Series, *, ratios: bool) -> Parting:
    """Where two series part. `ratios`: their quotient counts, where all values are positive, not their difference."""
    both = one.join(other, on="step", how="inner", suffix="_other").rename({"value": "one", "value_other": "other"})
    both = both.sort("step")
    if both.is_empty():
        return Parting("too few", 0)
    if both.select((pl.col("one").eq_missing(pl.col("other"))).all()).item():
        return Parting("equal", both.height)
    broken = _one_breaks(both)
    usable = both.filter(pl.col("one").is_finite() & pl.col("other").is_finite())
    if broken is not None:
        usable = usable.filter(pl.col("step") < broken.step)
    found = _by_blocks(usable, ratios) if usable.height >= FEWEST else None
    if found is not None:
        return found
    if broken is not None:
        return broken
    return Parting("together" if usable.height >= FEWEST else "too few", both.height)


def _one_breaks(both: pl.DataFrame) -> Parting | None:
    """The first step at which only one of the runs is finite."""
    rows = both.filter(pl.col("one").is_finite() != pl.col("other").is_finite()).head(1)
    for step, one, other in rows.select("step", "one", "other").iter_rows():
        return Parting("apart", both.height, step, step, one, other, math.inf)
    return None


def block_rows(count: int) -> int:
    """Rows in a block: twenty, fewer where there are not six such blocks, more where there are hundreds."""
    return max(1, min(20, count // 6), count // 200)


def _by_blocks(both: pl.DataFrame, ratios: bool) -> Parting | None:
    """The first block that parts them, with the next one on its side."""
    logs = ratios and bool(both.select(((pl.col("one") > 0) & (pl.col("other") > 0)).all()).item())
    scaled = both.with_columns(pl.col("one", "other").log()) if logs else both
    blocks = _blocks(scaled, block_rows(both.height))
    least = math.log(LEAST_FACTOR) if logs else LEAST_SHARE * _range(scaled)
    error = pl.col("error")
    apart = (
        (pl.col("difference").abs() > ERRORS * error)
        & (pl.col("difference").abs() > SCATTERS * pl.col("scatter"))
        & (pl.col("difference").abs() > least)
    )
    side = pl.when(apart).then(pl.col("difference").sign()).otherwise(0.0)
    confirmed = (pl.col("side") != 0) & (pl.col("side") == pl.col("side").shift(-1))
    for row in blocks.with_columns(side.alias("side")).filter(confirmed).head(1).iter_rows(named=True):
        size = abs(row["difference"]) / row["scatter"] if row["scatter"] > 0 else math.inf
        back = math.exp if logs else float
        return Parting(
            "apart", both.height, row["first"], row["last"], back(row["one_mean"]), back(row["other_mean"]), size
        )
    return None


def _blocks(both: pl.DataFrame, length: int) -> pl.DataFrame:
    """Blocks of rows: first and last step, means, their difference, its error, and the scatter of single values."""
    row = pl.int_range(pl.len())
    last = max(0, (both.height + length // 2) // length - 1)
    return (
        both.lazy()
        .with_columns((pl.col("one") - pl.col("other")).alias("gap"))
        .with_columns(
            (row // length).clip(upper_bound=last).alias("block"),
            *(pl.col(name).diff().abs().alias(f"{name}_change") for name in ("gap", "one", "other")),
        )
        .group_by("block", maintain_order=True)
        .agg(
            pl.col("step").first().alias("first"),
            pl.col("step").last().alias("last"),
            pl.col("one").mean().alias("one_mean"),
            pl.col("other").mean().alias("other_mean"),
            pl.col("gap").mean().alias("difference"),
            pl.max_horizontal(_scatter("gap") / pl.len().sqrt(), _parts("gap")).fill_null(0.0).alias("error"),
            pl.max_horizontal(_scatter("one"), _scatter("other")).fill_null(0.0).alias("scatter"),
        )
        .collect()
    )


def _scatter(name: str) -> pl.Expr:
    """Standard deviation of single values around a trend, by the median change from one to the next."""
    return pl.col(f"{name}_change").median() * (_MAD / 2**0.5)


def _parts(name: str) -> pl.Expr:
    """Error of a block's mean by how much the means of its quarters change from one to the next."""
    quarter = pl.len() // 4
    means = [pl.col(name).slice(i * quarter, quarter).mean() for i in range(4)]
    changes = [(after - before) ** 2 for before, after in pairwise(means)]
    return pl.when(quarter > 0).then((pl.sum_horizontal(changes) / len(changes) / 2).sqrt() / 2)


def _range(both: pl.DataFrame) -> float:
    values = pl.concat([both["one"], both["other"]])
    low, high = values.quantile(0.05), values.quantile(0.95)
    return high - low if low is not None and high is not None else 0.0
