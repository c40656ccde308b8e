"""The common shape of most charts: one or several series over the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ..wording import count, number
from .base import Figure, Key
from .binning import BINS, Middle, Span, bands, spreads
from .marks import DOTTED, Axes, fit_domain, level_rule, line_layers, odd_keys, over, series_keys
from .summary import spoken, summarise, tabulate
from .theme import MUTED, SERIES

if TYPE_CHECKING:
    from ..run import Run

LINES = len(SERIES)
"""Lines in a chart; more would share colours."""


@dataclass(frozen=True, slots=True)
class Level:
    """A value that means something, as a dotted line with its meaning in the legend."""

    value: float
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a series is drawn: what the axis says, whether a wide spread gets a logarithmic one, steps or slopes."""

    axis: str = ""
    log: bool = False
    stepped: bool = False
    middle: Middle = "mean"
    bins: int = BINS
    level: Level | None = None


def whole(run: Run) -> Span:
    """All recorded steps of a run."""
    return Span(run.first_step or 0, run.last_step or 0)


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
    level = style.level
    domain = fit_domain(binned, log=log, include=level.value if level else None)
    axes = Axes(span=span, title=style.axis, domain=domain, log=log)
    summaries = summarise(frame, column, span, by)
    layers = [
        *([level_rule([level.value], axes)] if level else []),
        *line_layers(binned, axes, series, width=span.width(style.bins), stepped=style.stepped),
    ]
    description = f"{title} over {span.words()}: {spoken(summaries)}"
    return Figure(
        title=title,
        chart=over(span, layers, axes.height, description, **axes.parameters()),
        reading=reading + banded(binned, span, style),
        description=description,
        note=note,
        keys=series_keys(series) + odd_keys(binned) + level_keys(level),
        numbers=tabulate(summaries, "" if series else title[:1].lower() + title[1:]),
        wide=wide,
    )


def level_keys(level: Level | None) -> tuple[Key, ...]:
    """The legend entry of a level."""
    return (Key(f"{number(level.value)}: {level.meaning}", MUTED, dash=DOTTED),) if level else ()


def banded(binned: pl.DataFrame, span: Span, style: Style) -> str:
    """How to read line and band where the steps of a bin differ; nothing where each step, or a constant, is drawn."""
    if not (binned["lo"] < binned["hi"]).any():
        return ""
    return f" Line: {style.middle} of each {count(span.width(style.bins))} steps; band: their lowest to highest."
