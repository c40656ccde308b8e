"""A loss curve the size of a word, as an SVG path that needs no script: for the head of a report and an index."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ..charts.binning import Span, bands, spreads
from ..charts.marks import stretches
from ..charts.over_steps import whole
from ..wording import number

if TYPE_CHECKING:
    from ..run import Run

BINS = 80
WIDTH, HEIGHT, MARGIN = 240.0, 48.0, 3.0


@dataclass(frozen=True, slots=True)
class Sparkline:
    """`path` lies in a box of `WIDTH` x `HEIGHT`; `bad` are places and widths of stretches that are not finite.

    `first` and `last` are the finite loss at both ends as words, `end` is the latter as a number.
    """

    path: str
    bad: tuple[tuple[float, float], ...]
    first: str
    last: str
    log: bool
    end: float | None = None

    @property
    def label(self) -> str:
        """What a screen reader says."""
        odd = ", then not finite" if self.bad else ""
        return f"Loss from {self.first} to {self.last}{odd}"


def loss_sparkline(run: Run, bins: int = BINS) -> Sparkline | None:
    """The loss of a run, in so many bins; None if it recorded none."""
    if not run.has("steps", "loss"):
        return None
    frame, span = run.frame("steps", "loss"), whole(run)
    log = spreads(frame["loss"])
    binned = bands(frame, "loss", span, bins=bins, positive=log)
    points = [(_across(step, span), value) for step, value in binned.select("step", "mid").iter_rows()]
    bad = stretches(binned.filter(pl.col("bad") > 0)["step"], span.width(bins))
    finite: list[float] = frame["loss"].filter(frame["loss"].is_finite()).to_list()
    return Sparkline(
        path=_path(points, log),
        bad=tuple(_stretch(start, until, span) for start, until in bad.iter_rows()),
        first=number(finite[0] if finite else None, 3),
        last=number(finite[-1] if finite else None, 3),
        log=log,
        end=finite[-1] if finite else None,
    )


def _stretch(start: int, until: int, span: Span) -> tuple[float, float]:
    """Place and width of a stretch of steps; wide enough to be seen."""
    left = _across(start, span)
    return left, round(max(1.5, _across(until, span) - left), 1)


def _across(step: int, span: Span) -> float:
    """The place of a step, from the left."""
    return round(MARGIN + (WIDTH - 2 * MARGIN) * (step - span.first) / max(1, span.last - span.first), 1)


def _path(points: list[tuple[float, float | None]], log: bool) -> str:
    """Lines through the values, lifted over bins without one; a lone value becomes a dot."""
    scaled = [(x, None if value is None else (math.log10(value) if log else value)) for x, value in points]
    heights = [value for _, value in scaled if value is not None]
    if not heights:
        return ""
    low, high = min(heights), max(heights)
    pieces, lifted = [], True
    for x, value in scaled:
        if value is None:
            lifted = True
            continue
        share = 0.5 if high == low else (value - low) / (high - low)
        pieces.append(f"{'M' if lifted else 'L'}{x:.1f},{HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN):.1f}")
        lifted = False
    return "".join(pieces) + ("h.1" if len(pieces) == 1 else "")
