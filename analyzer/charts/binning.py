"""From a column with a value per step to at most a few hundred bands: lowest, highest and middle value of each bin.

Bins follow the step's value, not the row number, and their width comes from a 1-2-5 ladder. So gaps, resumed runs and
columns that exist at every sixteenth step only line up across charts. Detectors never use this: they read every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import polars as pl

from ..wording import step_range

BINS = 500
"""Most bins of an ordinary chart."""

PORTION = 500_000
"""Rows of a long frame that are binned at once."""

HUGE = 1e280
"""Larger magnitudes count as not finite here: a span of them overflows the browser's arithmetic."""

Middle = Literal["mean", "median"]
Edges = Literal["extremes", "deciles"]


def bin_width(first: int, last: int, bins: int = BINS) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... with which steps `first` to `last` fall into at most `bins` bins."""
    span = last - first + 1
    decade = 1
    while True:
        for digit in (1, 2, 5):
            if -(-span // (digit * decade)) <= bins:
                return digit * decade
        decade *= 10


@dataclass(frozen=True, slots=True)
class Span:
    """The steps that a chart covers, both ends included."""

    first: int
    last: int

    def width(self, bins: int = BINS) -> int:
        """Steps to a bin."""
        return bin_width(self.first, self.last, bins)

    def bin_start(self, bins: int = BINS) -> pl.Expr:
        """The first step of the bin that a row's `step` falls into."""
        width = self.width(bins)
        return (self.first + (pl.col("step") - self.first) // width * width).alias("step")

    def words(self) -> str:
        """The span as people say it."""
        return step_range(self.first, self.last)

    def covers(self) -> pl.Expr:
        """Whether a row's `step` lies within."""
        return pl.col("step").is_between(self.first, self.last)


def finite(column: str) -> pl.Expr:
    """Values that can be drawn as float64; null for NaN, the infinities and magnitudes beyond any axis."""
    value = pl.col(column).cast(pl.Float64)
    return pl.when(value.is_finite() & (value.abs() < HUGE)).then(value)


def nonfinite(column: str) -> pl.Expr:
    """Whether a value exists and cannot be drawn."""
    return pl.col(column).is_not_null() & finite(column).is_null()


def bands(
    frame: pl.DataFrame | pl.LazyFrame,
    column: str,
    span: Span,
    *,
    by: tuple[str, ...] = (),
    bins: int = BINS,
    positive: bool = False,
    middle: Middle = "mean",
    edges: Edges = "extremes",
) -> pl.DataFrame:
    """`column` of the rows within `span`, binned: columns `by`, step (the bin's first), lo, hi, mid, bad, zero, rows.

    `bad` counts values that are not finite. With `positive`, for a logarithmic axis, values of zero or less take no
    part in lo, hi and mid, and `zero` counts them. Bins without a value are absent; a bin of bad values alone has
    null in lo, hi and mid, so that a line breaks there. `edges` "deciles" is for heavy tails: lo and hi then are the
    10 % and 90 % quantiles.
    """
    found = bands_of(frame, (column,), span, by=by, bins=bins, positive=positive, middle=middle, edges=edges)
    return found[column]


def bands_of(
    frame: pl.DataFrame | pl.LazyFrame,
    columns: Sequence[str],
    span: Span,
    *,
    by: tuple[str, ...] = (),
    bins: int = BINS,
    positive: bool = False,
    middle: Middle = "mean",
    edges: Edges = "extremes",
) -> dict[str, pl.DataFrame]:
    """The same of several columns by their names: what bin a row belongs to is found once."""
    sums = middle == "mean" and edges == "extremes"  # these need no more memory than their result, quantiles do
    parts = {column: _band(column, positive=positive, middle=middle, edges=edges) for column in columns}
    binned = (
        frame.lazy()
        .filter(span.covers() & pl.any_horizontal(pl.col(column).is_not_null() for column in columns))
        .select(
            *by,
            span.bin_start(bins),
            *(finite(column).alias(column) for column in columns),
            *(nonfinite(column).alias(f"{column} bad") for column in columns),
        )
        .group_by(*by, "step")
        .agg(part.alias(f"{column} {name}") for column in columns for name, part in parts[column].items())
        .sort(*by, "step")
        .collect(engine="streaming" if sums else "in-memory")
    )
    return {
        column: binned.select(*by, "step", *(pl.col(f"{column} {name}").alias(name) for name in parts[column])).filter(
            pl.col("rows") > 0
        )
        for column in columns
    }


def _band(column: str, *, positive: bool, middle: Middle, edges: Edges) -> dict[str, pl.Expr]:
    """Lowest, highest and middle of the values of a bin, and how many there are of each kind."""
    value, bad = pl.col(column), pl.col(f"{column} bad").sum().cast(pl.Int64)
    drawn = pl.when(value > 0).then(value) if positive else value
    return {
        "lo": drawn.min() if edges == "extremes" else drawn.quantile(0.1, "linear"),
        "hi": drawn.max() if edges == "extremes" else drawn.quantile(0.9, "linear"),
        "mid": drawn.mean() if middle == "mean" else drawn.median(),
        "bad": bad,
        "zero": (value <= 0).sum().cast(pl.Int64) if positive else pl.lit(0, pl.Int64),
        "rows": value.count().cast(pl.Int64) + bad,
    }


def portions(frame: pl.DataFrame, span: Span, bins: int = BINS) -> Iterator[pl.DataFrame]:
    """A long frame in slices of whole bins, if it is sorted by step: what is done bin by bin then needs less memory."""
    parts = min(bins, frame.height // PORTION + 1) if frame["step"].is_sorted() else 1
    stride = span.width(bins) * -(-bins // parts)
    begins = range(span.first + stride, span.last + 1, stride) if parts > 1 else range(0)
    cuts = [frame["step"].search_sorted(step) for step in begins]
    for start, end in pairwise([0, *cuts, frame.height]):
        yield frame[start:end]


def spreads(values: pl.Series, ratio: float = 50.0) -> bool:
    """Whether a logarithmic axis is better: no value below zero, and the largest over `ratio` times the smallest."""
    usable = values.cast(pl.Float64)
    usable = usable.filter(usable.is_finite() & (usable.abs() < HUGE))
    above = usable.filter(usable > 0)
    low, high = above.min(), above.max()
    if not isinstance(low, float) or not isinstance(high, float) or (usable < 0).any():
        return False
    return high > ratio * low
