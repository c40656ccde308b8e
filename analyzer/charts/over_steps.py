"""The common shape of most charts: one or several series over the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from .base import Figure
from .binning import BINS, Middle, Span, bands, spreads
from .marks import Axes, fit_domain, layered, line_layers, odd_keys, series_keys
from .summary import spoken, summarise, tabulate
from .theme import SERIES

if TYPE_CHECKING:
    from ..run import Run

LINES = len(SERIES)
"""Lines in a chart; more would share colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a series is drawn: what the axis says, whether a wide spread gets a logarithmic one, steps or slopes."""

    axis: str = ""
    log: bool = False
    stepped: bool = False
    middle: Middle = "mean"
    bins: int = BINS


def whole(run: Run) -> Span:
    """All recorded steps of a run."""
    return Span(run.first_step or 0, run.last_step or 0)


def by_optimizer(run: Run, column: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """A column of the table of steps as step, series and value; a series for each optimizer where several take turns.

    In adversarial training neighbouring steps belong to different losses, and one line through both would say nothing.
    """
    frame = run.frame("steps", "optimizer", column).drop_nulls(column)
    positions = frame["optimizer"].drop_nulls().unique().sort().to_list()
    value = pl.col(column).cast(pl.Float64).alias("value")
    if len(positions) < 2:
        return frame.select("step", pl.lit(column).alias("series"), value), ()
    kinds = {group.optimizer: group.type for group in run.groups}
    names = {i: f"optimizer {i}" + (f" ({kinds[i]})" if kinds.get(i) else "") for i in positions}
    series = pl.col("optimizer").replace_strict(names, default="no optimizer", return_dtype=pl.String)
    return frame.select("step", series.alias("series"), value), tuple(names.values())


def over_steps(
    run: Run,
    frame: pl.DataFrame,
    column: str,
    *,
    title: str,
    reading: str,
    style: Style,
    series: Sequence[str] = (),
    note: str = "",
    span: Span | None = None,
    wide: bool = False,
) -> Figure:
    """`column` of `frame` (with step, and series where `series` names several) as a figure over `span`, or the run."""
    span, by = span or whole(run), "series" if series else None
    log = style.log and spreads(frame[column])
    binned = bands(
        frame, column, span, by=("series",) if series else (), bins=style.bins, positive=log, middle=style.middle
    )
    axes = Axes(span=span, title=style.axis, domain=fit_domain(binned, log=log), log=log)
    summaries = summarise(frame, column, span, by)
    layers = line_layers(binned, axes, series, width=span.width(style.bins), stepped=style.stepped)
    description = f"{title} over {span.words()}: {spoken(summaries)}"
    return Figure(
        title=title,
        chart=layered(layers, axes.height, description),
        reading=reading + banded(binned, span, style),
        description=description,
        note=note,
        keys=series_keys(series) + odd_keys(binned),
        numbers=tabulate(summaries, "" if series else title.lower()),
        wide=wide,
    )


def banded(binned: pl.DataFrame, span: Span, style: Style) -> str:
    """How to read line and band where the steps of a bin differ; nothing where each step, or a constant, is drawn."""
    if not (binned["lo"] < binned["hi"]).any():
        return ""
    return f" Line: {style.middle} of {span.width(style.bins)} steps; band: their lowest to highest."
