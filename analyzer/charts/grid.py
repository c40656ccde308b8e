"""Rows by steps: a coloured cell for each row and bin of steps, with marks for what no colour scale can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from .base import Key
from .binning import Span, finite, nonfinite, portions
from .marks import SHORT_NUMBER, STEPS, log_ticks, over
from .theme import INK, SERIES, ZERO

COLUMNS = 100
"""Most bins of steps."""
ROW_HEIGHT = 13
SHORT = "length(datum.label) > 27 ? '\u2026' + slice(datum.label, length(datum.label) - 26) : datum.label"
"""Names differ at their end, so long ones lose their beginning."""
OVERLAP = 0.6
"""Pixels by which a cell reaches under the next one: a canvas leaves hairlines between neighbours."""

FLAGS = {"exactly zero": ZERO, "negative": SERIES[1], "not finite": INK}
"""Kinds of cells beside those with a value, and their colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Colours:
    """What the colours mean. `log`: magnitudes, which have no place for zero and less. `domain`: a fixed scale."""

    title: str
    log: bool = True
    domain: tuple[float, float] | None = None
    offset: int = 8
    """Pixels between legend and plot; the title of a value axis needs some."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells (row, step, until, value), where value may be null; `flags` (row, step, until, kind) of `FLAGS`."""

    cells: pl.DataFrame
    flags: pl.DataFrame
    labels: tuple[str, ...]
    span: Span

    def keys(self) -> tuple[Key, ...]:
        """Legend entries of the flags that occur."""
        present = set(self.flags["kind"])
        return tuple(Key(kind, color, symbol="square") for kind, color in FLAGS.items() if kind in present)


def grid(
    frame: pl.DataFrame, span: Span, labels: Sequence[str], *, log: bool, longest: int = 1, peaks: bool = False
) -> Grid:
    """Columns row, step, value as a grid: the median of each bin, of what is above zero on a logarithmic scale.

    `peaks`: the highest value instead, so that a spike of a single step is still seen. A cell lasts until the next one
    of its row, as most steps are not probed; but for at most `longest` steps or a bin.
    """
    value = pl.col("value")
    drawn = value.filter(value > 0) if log else value
    chosen = drawn.max() if peaks else drawn.median()
    kind = (
        pl.when(pl.col("bad") > 0).then(pl.lit("not finite"))
        .when(pl.col("value").is_not_null()).then(None)
        .when(pl.col("low") < 0).then(pl.lit("negative"))
        .otherwise(pl.lit("exactly zero"))
    )  # fmt: skip
    far = pl.col("step") + max(span.width(COLUMNS), longest)
    until = pl.min_horizontal(pl.col("step").shift(-1).over("row").fill_null(span.last + 1), far)
    binned = (
        pl.concat(_binned(part, span, chosen) for part in portions(frame, span, COLUMNS))
        .lazy()
        .sort(pl.col("row").cast(pl.Enum(labels)), "step")
        .select(pl.col("row").cast(pl.String), "step", until.alias("until"), "value", kind.alias("kind"))
        .collect()
    )
    flags = binned.filter(pl.col("kind").is_not_null()).select("row", "step", "until", "kind")
    return Grid(binned.drop("kind"), flags, tuple(labels), span)


def _binned(frame: pl.DataFrame, span: Span, chosen: pl.Expr) -> pl.DataFrame:
    """Columns row, step (the bin's first), value (the one chosen), low, bad (a count)."""
    return (
        frame.lazy()
        .filter(pl.col("value").is_not_null() & span.covers())
        .select("row", span.bin_start(COLUMNS), finite("value").alias("value"), nonfinite("value").alias("bad"))
        .group_by("row", "step")
        .agg(chosen.alias("value"), pl.col("value").min().alias("low"), pl.col("bad").sum())
        .collect()
    )


def grid_chart(
    of: Grid, colours: Colours, description: str, *, noun: str, row_height: float = ROW_HEIGHT
) -> alt.LayerChart:
    """The cells on a canvas: there are thousands."""
    labels = alt.Axis(
        title=None, labelExpr=SHORT, labelLimit=190, labelOverlap=True, minExtent=0, grid=False, labelFontSize=10
    )
    y = alt.Y("row:N", scale=alt.Scale(domain=list(of.labels), paddingInner=0.06), axis=labels)
    layers = [_values(of, colours, noun, y), *(_flags(of, kind, color, noun, y) for kind, color in FLAGS.items())]
    height = round(row_height * max(3, len(of.labels)))
    return over(of.span, [layer for layer in layers if layer is not None], height, description)


def across() -> dict[str, Any]:
    """The encoding of the steps of a cell; a cell of the last step needs room for itself."""
    scale = alt.Scale(domain=alt.ExprRef(f"[{STEPS}[0], {STEPS}[1] + 1]"), nice=False, zero=False)
    return {"x": alt.X("step:Q", scale=scale, axis=alt.Axis(title="step", tickMinStep=1)), "x2": alt.X2("until")}


def _values(of: Grid, colours: Colours, noun: str, y: alt.Y) -> alt.Chart | None:
    value = of.cells["value"].drop_nulls()
    if value.is_empty():
        return None
    words = [
        alt.Tooltip("row:N", title=noun),
        alt.Tooltip("step:Q", title="step", format=",d"),
        alt.Tooltip("value:Q", title=colours.title, format=".3~g"),
    ]
    base = alt.Chart(of.cells).transform_filter("isValid(datum.value)").mark_rect(aria=False, x2Offset=OVERLAP)
    chart: alt.Chart = base.encode(y=y, color=colour_of(value, colours), tooltip=words, **across())
    return chart


def colour_of(value: pl.Series, colours: Colours) -> alt.Color:
    """The colours of values, between their 1 % and 99 % quantiles where no scale is given."""
    low, high = colours.domain or _quantiles(value, log=colours.log)
    ticks = log_ticks(low, high, most=4) if colours.log else linear_ticks(low, high)
    legend = alt.Legend(
        title=f"{colours.title}, log scale" if colours.log else colours.title,
        titleLimit=300,
        orient="top",
        direction="horizontal",
        gradientLength=180,
        gradientThickness=8,
        values=ticks,
        labelExpr=SHORT_NUMBER,
        offset=colours.offset,
    )
    scheme = alt.SchemeParams(name="viridis", extent=[0.1, 1])
    scale = alt.Scale(type="log" if colours.log else "linear", domain=[low, high], clamp=True, scheme=scheme)
    return alt.Color("value:Q", scale=scale, legend=legend)


def _quantiles(value: pl.Series, *, log: bool) -> tuple[float, float]:
    low, high = (float(value.quantile(share, "nearest") or 0.0) for share in (0.01, 0.99))
    if log:
        return low / 1.01, high * 1.01
    return min(0.0, low), high if high > min(0.0, low) else 1.0


def linear_ticks(low: float, high: float) -> list[float]:
    """Three to six round values between two."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    stride = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough)
    return [round(i * stride, 12) for i in range(math.ceil(low / stride), math.floor(high / stride) + 1)]


def _flags(of: Grid, kind: str, color: str, noun: str, y: alt.Y) -> alt.Chart | None:
    chosen = of.flags.filter(pl.col("kind") == kind)
    if chosen.is_empty():
        return None
    words = [
        alt.Tooltip("row:N", title=noun),
        alt.Tooltip("step:Q", title="step", format=",d"),
        alt.Tooltip("kind:N", title="value"),
    ]
    flags: alt.Chart = alt.Chart(chosen).mark_rect(color=color, aria=False, x2Offset=OVERLAP)
    return flags.encode(y=y, tooltip=words, **across())
