"""A measure of several runs over the steps, their curves in one chart."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from ...comparison.measures import Measure, Series
from ...comparison.partings import Separation, when
from ...wording import capitalized, count
from ..base import Figure, Key
from ..binning import Span, bands, spreads
from ..marks import Axes, fit_domain, line_layers, odd_keys, over, series_keys
from ..summary import spoken, summarise, tabulate
from ..theme import MUTED
from . import MOST, Curves

BINS = 120
"""Fewer than in the chart of one run: curves that lie over one another must be smooth to be told apart."""


def overlay(
    measure: Measure, series: Mapping[tuple[str, int], Series], curves: Curves, parted: Separation | None
) -> Figure | None:
    """A measure of all drawn runs over the steps, with the block in which it parts them; None if none recorded it."""
    parts = [
        series[measure.name, position].with_columns(pl.lit(name).alias("series"))
        for position, name in zip(curves.positions, curves.names, strict=True)
    ]
    frame = pl.concat(parts)
    if frame.is_empty():
        return None
    span = Span(int(frame["step"].min() or 0), int(frame["step"].max() or 0))  # type: ignore[arg-type]
    log = measure.ratios and spreads(frame["value"])
    binned = bands(frame, "value", span, by=("series",), bins=BINS, positive=log)
    if len(curves.names) > 2:  # bands over bands would hide the lines
        binned = binned.with_columns(lo="mid", hi="mid")
    axes = Axes(span=span, title="", domain=fit_domain(binned, log=log), log=log)
    summaries = summarise(frame, "value", span, "series")
    title = capitalized(measure.name)
    description = f"{title} of {count(len(curves.names))} runs over {span.words()}: {spoken(summaries, MOST)}"
    layers = [*_parting_rule(parted, axes), *line_layers(binned, axes, curves.names, width=span.width(BINS))]
    return Figure(
        title=title,
        chart=over(span, layers, axes.height, description, **axes.parameters()),
        reading=measure.reading + _smoothed(span),
        description=description,
        keys=series_keys(curves.names) + odd_keys(binned) + _parting_key(parted),
        numbers=tabulate(summaries, ""),
    )


def _smoothed(span: Span) -> str:
    width = span.width(BINS)
    return f" Lines: means of {count(width)} steps." if width > 1 else ""


def _parting_rule(parted: Separation | None, axes: Axes) -> list[alt.Chart]:
    if not parted or not parted.apart:
        return []
    rule = alt.Chart(pl.DataFrame({"step": [parted.parting.step]})).mark_rule(color=MUTED, strokeWidth=1.5, aria=False)
    return [rule.encode(x=axes.x())]


def _parting_key(parted: Separation | None) -> tuple[Key, ...]:
    return (Key(f"they part, {when(parted.parting)}", MUTED, symbol="bar"),) if parted and parted.apart else ()
