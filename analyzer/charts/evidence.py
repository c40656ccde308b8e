"""The chart of a finding: the series that it judged, the value that decided, and the steps at which it fired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from .. import derived
from ..absence import why_absent
from ..wording import capitalized, listed, number, sentence, step_range
from .base import Figure, Missing
from .binning import BINS, Span, bands, spreads
from .marks import (
    Axes,
    fit_domain,
    line_layers,
    odd_keys,
    over,
    series_keys,
    shade_keys,
    shade_layers,
    threshold_layers,
)
from .metrics import logged
from .over_steps import Style, banded, whole
from .rows import names_with, noun_of
from .summary import spoken, summarise, tabulate

if TYPE_CHECKING:
    from ..findings import ChartRef, Finding
    from ..run import Run

MOST = 5
"""Series drawn for a finding about many tensors."""

CONTEXT = 50
"""Fewest steps shown before and after those at which a rule fired."""

ALPHA_SHOWN = (-2.0, 4.0)
"""Alpha's heavy tail would flatten everything else; beyond, it is drawn on the edge."""


@dataclass(frozen=True, slots=True)
class Series:
    """Rows step, value, and series where there are several; `names` in order; `title` of the quantity."""

    frame: pl.DataFrame
    title: str
    names: tuple[str, ...] = ()
    total: int = 1


def draw_evidence(run: Run, finding: Finding) -> Figure | Missing | None:
    """The chart that a finding refers to, zoomed to its steps; None for a finding that refers to none."""
    if finding.chart is None:
        return None
    try:
        series = _series(run, finding, finding.chart)
    except KeyError:
        return Missing("Evidence", f"There is no column {finding.chart.table}.{finding.chart.column} to draw.")
    if series.frame["value"].null_count() == len(series.frame):
        return Missing(series.title, why_absent(run, finding.chart.table, finding.chart.column))
    return _figure(series, whole(run), finding, finding.chart)


def _figure(series: Series, whole_run: Span, finding: Finding, ref: ChartRef) -> Figure:
    span = _window(whole_run, finding)
    inside = series.frame.filter(span.covers())
    log = ref.column != "alpha" and spreads(inside["value"]) and (ref.reference is None or ref.reference > 0)
    bins = max(150, min(BINS, 2 * BINS // max(1, len(series.names))))
    binned = bands(series.frame, "value", span, by=("series",) if series.names else (), bins=bins, positive=log)
    fitted = fit_domain(binned, log=log, include=ref.reference)
    axes = Axes(span=span, title="", domain=_clipped(fitted) if ref.column == "alpha" else fitted, log=log, height=210)
    fired = _shaded(span, finding)
    shaded = fired if fired != span else None
    layers = [
        *(shade_layers(shaded, axes) if shaded else []),
        *line_layers(binned, axes, series.names, width=span.width(bins)),
        *(threshold_layers(ref.reference, axes) if ref.reference is not None else []),
    ]
    summaries = summarise(series.frame, "value", span, "series" if series.names else None)
    description = f"{series.title} over {span.words()}{_marked(finding, ref)}. {spoken(summaries)}"
    return Figure(
        title=series.title,
        chart=over(span, layers, axes.height, description, **axes.parameters()),
        reading=_reading(span, fired, shaded, ref) + banded(binned, span, Style(bins=bins)),
        description=description,
        note=_left_out(series),
        keys=series_keys(series.names) + odd_keys(binned) + (shade_keys(shaded) if shaded else ()),
        numbers=tabulate(summaries, "" if series.names else series.title[:1].lower() + series.title[1:]),
        span=span if span != whole_run else None,
        wide=True,
    )


def _series(run: Run, finding: Finding, ref: ChartRef) -> Series:
    """The rows behind a reference. Raises KeyError for a table or column that does not exist."""
    if ref.table == "metrics":
        return _metric(run, ref.column)
    column = derived.column(ref.table, ref.column)
    words = derived.quantity(ref.table, ref.column)
    title = capitalized(words)
    value = pl.col(column.name).list.max() if column.dtype.startswith("list") else pl.col(column.name)
    frame = run.frame(ref.table, column.name)
    if ref.table == "steps":
        return Series(frame.select("step", value.cast(pl.Float64).alias("value")), title)
    key = noun_of(ref.table)
    everything = names_with(run, ref.table, column.name)
    wanted = [name for name in (ref.tensors or finding.tensors) if name in set(everything)] or everything
    names = _spread_out(list(dict.fromkeys(wanted)))
    rows = frame.filter(pl.col(key).is_in(names)).select(
        "step", pl.col(key).alias("series"), value.cast(pl.Float64).alias("value")
    )
    return Series(rows, title, tuple(names), len(wanted))


def _metric(run: Run, name: str) -> Series:
    rows = logged(run, name)
    names = rows["series"].unique(maintain_order=True).to_list()[:MOST]
    return Series(rows.filter(pl.col("series").is_in(names)), name, tuple(names))


def _left_out(series: Series) -> str:
    drawn = len(series.names)
    return f"{drawn} of {series.total} are drawn." if series.total > drawn > 0 else ""


def _spread_out(names: list[str]) -> list[str]:
    """At most `MOST` of them, the first and the last included."""
    if len(names) <= MOST:
        return names
    return [names[round(i * (len(names) - 1) / (MOST - 1))] for i in range(MOST)]


def _window(run: Span, finding: Finding) -> Span:
    """The steps of the finding with some before and after; the whole run where that is not much less."""
    shaded = _shaded(run, finding)
    if shaded is None:
        return run
    margin = max(CONTEXT, 2 * (shaded.last - shaded.first + 1))
    near = Span(max(run.first, shaded.first - margin), min(run.last, shaded.last + margin))
    return near if near.last - near.first < 0.6 * (run.last - run.first) else run


def _shaded(span: Span, finding: Finding) -> Span | None:
    """The steps at which the rule fired, as far as the chart covers them."""
    if finding.first_step is None:
        return None
    last = finding.last_step if finding.last_step is not None else finding.first_step
    first, last = max(span.first, finding.first_step), min(span.last, last)
    return Span(first, last) if first <= last else None


def _clipped(domain: tuple[float, float]) -> tuple[float, float]:
    return max(domain[0], ALPHA_SHOWN[0]), min(domain[1], ALPHA_SHOWN[1])


def _marked(finding: Finding, ref: ChartRef) -> str:
    parts = [step_range(finding.first_step, finding.last_step)] if finding.first_step is not None else []
    if ref.reference is not None:
        parts.append(f"threshold {number(ref.reference)}")
    return f" ({listed(parts)})" if parts else ""


def _reading(span: Span, fired: Span | None, shaded: Span | None, ref: ChartRef) -> str:
    if shaded:
        where = f" Shaded: where the rule fired, {shaded.words()}."
    else:
        where = " The rule fired at all of them." if fired else ""
    return f"{sentence(span.words())}.{where}" + (
        f" Dashed: the threshold, {number(ref.reference)}." if ref.reference is not None else ""
    )
