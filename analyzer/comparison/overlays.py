"""Curves of several runs in one chart, outcomes against hyperparameters, and the distribution of alpha run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import polars as pl

from ..charts.alpha import SHOWN
from ..charts.alpha_distribution import BIN
from ..charts.base import Figure, Key, Numbers
from ..charts.binning import Span, bands, spreads
from ..charts.marks import SHORT_NUMBER, Axes, fit_domain, layered, line_layers, log_ticks, odd_keys, over, series_keys
from ..charts.summary import spoken, summarise, tabulate
from ..charts.theme import HEIGHT, MUTED, SERIES
from ..wording import capitalized, count, number, percent
from .measures import Measure, Series
from .next_values import Advice
from .outcomes import Goal
from .partings import Separation, when

BINS = 120
"""Fewer than in the chart of one run: curves that lie over one another must be smooth to be told apart."""

MOST = len(SERIES)
"""Runs in a chart; more would share colours."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The runs to draw, by their positions and names; `colors` of an excerpt of the runs would not match the page."""

    positions: tuple[int, ...]
    names: tuple[str, ...]


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


def alpha_distributions(series: Mapping[tuple[str, int], Series], curves: Curves) -> tuple[Figure, ...]:
    """A histogram of alpha for each run that has it, all on the same axes."""
    known = [
        (i, name, series["alpha", position])
        for i, (position, name) in enumerate(zip(curves.positions, curves.names, strict=True))
        if not series["alpha", position].is_empty()
    ]
    if not known:
        return ()
    shares = {name: _shares(values) for _, name, values in known}
    top = max(float(frame["share"].max() or 0.0) for frame in shares.values())  # type: ignore[arg-type]
    return tuple(_distribution(name, values, shares[name], top, SERIES[i % MOST]) for i, name, values in known)


def _shares(values: Series) -> pl.DataFrame:
    """Columns alpha (left edge of a bin) and share in percent; every bin of the axis has a row."""
    bins = round((SHOWN[1] - SHOWN[0]) / BIN)
    position = ((pl.col("value") - SHOWN[0]) / BIN).floor().clip(0, bins - 1).cast(pl.Int64).alias("bin")
    counted = values.select(position).group_by("bin").agg(pl.len().alias("n"))
    grid = pl.DataFrame({"bin": range(bins + 1)}).join(counted, on="bin", how="left", maintain_order="left")
    return grid.select(
        (SHOWN[0] + pl.col("bin") * BIN).round(6).alias("alpha"),
        (100 * pl.col("n").fill_null(0) / values.height).alias("share"),
    )


def _distribution(name: str, values: Series, shares: pl.DataFrame, top: float, color: str) -> Figure:
    quantiles = [values["value"].quantile(share, "linear") for share in (0.1, 0.5, 0.9)]
    above = percent(float((values["value"] > 1).sum()) / values.height)
    described = f"median {number(quantiles[1], 3)}, {above} above 1 ({count(values.height)} values)"
    x = alt.X("alpha:Q", scale=alt.Scale(domain=list(SHOWN), nice=False), axis=alt.Axis(title="alpha", format="~g"))
    y = alt.Y("share:Q", axis=alt.Axis(title="% of the steps"), scale=alt.Scale(domain=[0, max(top, 1.0)]))
    base = alt.Chart(shares).encode(x=x)
    marks = pl.DataFrame({"alpha": [-1.0, 0.0, 1.0]})
    layers = [
        alt.Chart(marks).mark_rule(color=MUTED, strokeDash=[2, 3], aria=False).encode(x=x),
        base.mark_area(opacity=0.18, interpolate="step-after", aria=False, color=color).encode(y=y.stack(None)),
        base.mark_line(interpolate="step-after", aria=False, color=color).encode(y=y),
        alt.Chart(pl.DataFrame({"alpha": quantiles[1:2]}))
        .mark_rule(color=color, strokeWidth=2, aria=False)
        .encode(x=x),
    ]
    description = f"Distribution of alpha in {name}: {described}."
    header = ("", "values", "10 %", "median", "90 %", "above 1")
    row = (name, count(values.height), *(number(value, 3) for value in quantiles), above)
    return Figure(
        title=name,
        chart=layered(layers, 132, description),
        reading=f"{capitalized(described)}.",
        description=description,
        numbers=Numbers(header, (row,)),
    )


def against_outcome(
    advice: Advice, values: Sequence[float | None], costs: Sequence[float | None], names: Sequence[str], by: Goal
) -> Figure | None:
    """The outcome of each run by one hyperparameter, the best marked, and ticks at the values to try next."""
    points = [(x, y, name) for x, y, name in zip(values, costs, names, strict=True) if x is not None and y is not None]
    if len(points) < 2:
        return None
    frame = pl.DataFrame(points, schema=["value", "outcome", "run"], orient="row")
    best = frame.sort("outcome", descending=not by.falls).head(1)
    every = [*frame["value"].to_list(), *advice.next]
    log = min(every) > 0 and max(every) > 4 * min(every)
    x_scale: dict[str, Any] = {"type": "log", "nice": False} if log else {"zero": False, "nice": True}
    low, high = min(every), max(every)
    pad = (high / low) ** 0.06 if log else 0.06 * (high - low) or 1.0
    x_scale["domain"] = [low / pad, high * pad] if log else [low - pad, high + pad]
    ticks: dict[str, Any] = {"values": log_ticks(*x_scale["domain"])} if log else {"tickCount": 5}
    axis = {"title": advice.name, "labelExpr": SHORT_NUMBER} | ticks
    x = alt.X("value", type="quantitative", scale=x_scale, axis=axis)
    falling = by.falls and spreads(frame["outcome"])
    y_scale: dict[str, Any] = {"type": "log"} if falling else {"zero": False}
    y = alt.Y("outcome", type="quantitative", scale=y_scale, axis={"title": str(by), "labelExpr": SHORT_NUMBER})
    layers = [
        alt.Chart(frame)
        .mark_point(size=60, color=SERIES[0], filled=True, opacity=0.75, aria=False)
        .encode(
            x=x,
            y=y,
            tooltip=["run:N", alt.Tooltip("value:Q", title=advice.name), alt.Tooltip("outcome:Q", title=str(by))],
        ),
        alt.Chart(best)
        .mark_point(size=190, color=SERIES[0], filled=False, strokeWidth=1.6, aria=False)
        .encode(x=x, y=y),
    ]
    if advice.next:
        marks = alt.Chart(pl.DataFrame({"value": list(advice.next)}))
        layers.append(marks.mark_rule(color=SERIES[1], strokeDash=[4, 3], aria=False).encode(x=x))
    x_best, y_best = best.row(0)[:2]
    best_at = f"best {number(y_best)} at {number(x_best)}"
    description = f"{by} by {advice.name}, {count(len(points))} runs: {best_at}."
    keys = (Key("a run, the best ringed", SERIES[0], symbol="ring"),)
    return Figure(
        title=advice.name,
        chart=layered(layers, HEIGHT, description),
        reading="",
        description=description,
        keys=(*keys, Key("to try next", SERIES[1], dash=(4, 3))) if advice.next else keys,
    )


def with_reading(figure: Figure, reading: str) -> Figure:
    """The figure with another sentence."""
    return replace(figure, reading=reading)
