"""Layers by steps: a cell for each tensor and bin of steps, coloured by the logarithm of a statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from ..absence import why_absent
from ..wording import count, number, plural
from .base import Figure, Key, Missing
from .binning import Span, finite, nonfinite
from .marks import SHORT_NUMBER, layered, log_ticks
from .over_steps import whole
from .tensor_rows import TensorRows, tensor_rows
from .theme import ALARM, ZERO

if TYPE_CHECKING:
    from ..run import Run

ROWS = 80
COLUMNS = 120
ROW_HEIGHT = 13
SHORT = "length(datum.label) > 27 ? '\u2026' + slice(datum.label, length(datum.label) - 26) : datum.label"
"""Names differ at their end, so long ones lose their beginning."""


def layer_heatmap(run: Run, column: str, *, title: str, quantity: str, reading: str) -> Figure | Missing:
    """Medians of a column of `layers` by tensor in forward order (top to bottom) and bin of steps."""
    if not run.has("layers", column):
        return Missing(title, why_absent(run, "layers", column))
    span, rows = whole(run), tensor_rows(run, column, ROWS)
    cells = _cells(run.frame("layers", column), column, span, rows, _longest(run, span))
    description = _described(cells, title, span, rows)
    return Figure(
        title=title,
        chart=_chart(cells, span, rows, quantity, description),
        reading=reading,
        description=description,
        note=rows.note(),
        keys=_keys(cells),
        renderer="canvas",
        wide=True,
    )


def _cells(frame: pl.DataFrame, column: str, span: Span, rows: TensorRows, longest: int) -> pl.DataFrame:
    """Columns row, step, until, value (median of what is above zero), kind: value, zero or not finite.

    A cell lasts until the next one of its row, as most steps are not probed; but for at most `longest` steps.
    """
    positive = pl.col("value").filter(pl.col("value") > 0).median()
    kind = pl.when(pl.col("bad") > 0).then(pl.lit("not finite")).when(pl.col("value").is_null()).then(pl.lit("zero"))
    until = pl.min_horizontal(pl.col("step").shift(-1).over("row").fill_null(span.last + 1), pl.col("step") + longest)
    return (
        frame.lazy()
        .filter(pl.col(column).is_not_null())
        .join(rows.of.lazy(), on="tensor", how="inner")
        .select("row", span.bin_start(COLUMNS), finite(column).alias("value"), nonfinite(column).alias("bad"))
        .group_by("row", "step")
        .agg(positive, pl.col("bad").sum())
        .sort("row", "step")
        .select("row", "step", until.alias("until"), "value", kind.otherwise(pl.lit("value")).alias("kind"))
        .collect()
    )


def _longest(run: Run, span: Span) -> int:
    """Steps that a cell may stand for: twice the distance of probes, or a bin."""
    every = run.manifest.schedule.get("every")
    return max(span.width(COLUMNS), 2 * every if isinstance(every, int) else 1)


def _chart(cells: pl.DataFrame, span: Span, rows: TensorRows, quantity: str, description: str) -> alt.LayerChart:
    ends = [span.first, span.last + 1]
    axis = alt.Axis(
        title=None, labelExpr=SHORT, labelLimit=190, labelOverlap=True, minExtent=0, grid=False, labelFontSize=10
    )
    base = alt.Chart(cells).encode(
        x=alt.X(
            "step:Q", scale=alt.Scale(domain=ends, nice=False, zero=False), axis=alt.Axis(title="step", tickMinStep=1)
        ),
        x2=alt.X2("until"),
        y=alt.Y("row:N", scale=alt.Scale(domain=list(rows.labels), paddingInner=0.06), axis=axis),
        tooltip=[
            alt.Tooltip("row:N", title="tensor"),
            alt.Tooltip("step:Q", title="step", format=",d"),
            alt.Tooltip("value:Q", title=quantity, format=".3~g"),
            alt.Tooltip("kind:N", title="kind"),
        ],
    )
    layers = [_values(base, cells, quantity), *(_flags(base, cells, kind, color) for kind, color in FLAGS)]
    height = ROW_HEIGHT * max(3, len(rows.labels))
    return layered([layer for layer in layers if layer], height, description)


def _values(base: alt.Chart, cells: pl.DataFrame, quantity: str) -> alt.Chart | None:
    value = cells["value"].drop_nulls()
    if value.is_empty():
        return None
    low, high = (value.quantile(share, "nearest") or 1.0 for share in (0.01, 0.99))
    scale = alt.Scale(
        type="log",
        domain=[low / 1.01, high * 1.01],
        clamp=True,
        scheme=alt.SchemeParams(name="viridis", extent=[0.1, 1]),
    )
    legend = alt.Legend(
        title=f"{quantity}, log scale",
        titleLimit=300,
        orient="top",
        direction="horizontal",
        gradientLength=180,
        gradientThickness=8,
        values=log_ticks(low / 1.01, high * 1.01, most=4),
        labelExpr=SHORT_NUMBER,
        offset=8,
    )
    values: alt.Chart = base.transform_filter("datum.kind === 'value'").mark_rect(aria=False, x2Offset=OVERLAP)
    return values.encode(color=alt.Color("value:Q", scale=scale, legend=legend))


OVERLAP = 0.6
"""Pixels by which a cell reaches under the next one: a canvas leaves hairlines between neighbours."""

FLAGS = (("zero", ZERO), ("not finite", ALARM))
"""Kinds of cells that no colour scale can hold."""


def _flags(base: alt.Chart, cells: pl.DataFrame, kind: str, color: str) -> alt.Chart | None:
    if not (cells["kind"] == kind).any():
        return None
    chosen: alt.Chart = base.transform_filter(f"datum.kind === '{kind}'")
    flags: alt.Chart = chosen.mark_rect(color=color, aria=False, x2Offset=OVERLAP)
    return flags


def _keys(cells: pl.DataFrame) -> tuple[Key, ...]:
    words = {"zero": "exactly zero", "not finite": "not finite"}
    return tuple(Key(words[kind], color, symbol="square") for kind, color in FLAGS if (cells["kind"] == kind).any())


def _described(cells: pl.DataFrame, title: str, span: Span, rows: TensorRows) -> str:
    medians = cells.group_by("row").agg(pl.col("value").median()).drop_nulls().sort("value", "row")
    start = f"{title}: {plural(len(rows.labels), 'row')} of tensors in forward order over {span.words()}. "
    if medians.is_empty():
        return start + "No value is finite and above zero."
    low, high = medians.row(0), medians.row(-1)
    bad = cells.filter(pl.col("kind") == "not finite").height
    odd = f" {count(bad)} cells are not finite." if bad else ""
    return start + f"Lowest median {number(low[1])} in {low[0]}, highest {number(high[1])} in {high[0]}.{odd}"
