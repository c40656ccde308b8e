"""Alpha over the steps: where each update ended on the parabola fitted along it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from ..absence import why_absent
from ..wording import count, number, percent
from .base import Chart, Figure, Key, Missing, Numbers
from .binning import Span, bands
from .marks import DOTTED, Axes, level_rule, line_layers, marker, over
from .over_steps import whole
from .theme import MUTED, SERIES

if TYPE_CHECKING:
    from ..run import Run

LEVELS = (-1.0, 0.0, 1.0)
MEANING = "\u22121 no step, 0 minimum, 1 far side"
"""What these values of alpha mean. It stands in the legend: in the plot, words would lie on the curve."""

EARLY = 100
"""Steps that count as the start, where most faults of the step size show."""

SHOWN = (-1.6, 2.6)
"""Alpha has a heavy tail: values beyond are drawn on the edge, and counted in the note."""


class Alpha(Chart):
    """Alpha over time with its three landmarks, and concave steps marked apart: there alpha does not exist."""

    name = "alpha"
    title = "Step size: alpha"
    section = "step-size"
    shows = ("steps.alpha", "steps.alpha_concave")

    def draw(self, run: Run) -> Figure | Missing:
        """Median and middle eight tenths of alpha per bin; a tick at the foot for each bin with a concave step."""
        frame = run.frame("steps", "alpha", "alpha_concave")
        if not run.has("steps", "alpha") and not run.has("steps", "alpha_concave"):
            return Missing(self.title, why_absent(run, "steps", "alpha"))
        span = whole(run)
        axes = Axes(span=span, title="", domain=SHOWN, fixed=True)
        binned = bands(frame, "alpha", span, middle="median", edges="deciles")
        concave = _concave(frame, span)
        layers = [level_rule(LEVELS, axes)]
        if not binned.is_empty():
            layers += line_layers(binned, axes, width=span.width())
        if not concave.is_empty():
            layers.append(_concave_ticks(concave, axes))
        description = f"Alpha over {span.words()}: {_spoken(frame)}"
        return Figure(
            title=self.title,
            chart=over(span, layers, axes.height, description, **axes.parameters()),
            reading=_reading(binned, span),
            description=description,
            note=_outside(frame),
            keys=_keys(concave),
            numbers=_numbers(frame),
            wide=True,
        )


def _keys(concave: pl.DataFrame) -> tuple[Key, ...]:
    levels = Key(MEANING, MUTED, dash=DOTTED)
    return (levels,) if concave.is_empty() else (levels, Key("concave: no minimum, no alpha", SERIES[1], symbol="tick"))


def _concave(frame: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Bins that hold a concave step: step, and the share of fitted steps that were."""
    return (
        frame.filter(pl.col("alpha_concave").is_not_null())
        .select(span.bin_start(), "alpha_concave")
        .group_by("step")
        .agg(pl.col("alpha_concave").mean().alias("share"))
        .filter(pl.col("share") > 0)
        .sort("step")
    )


def _concave_ticks(concave: pl.DataFrame, axes: Axes) -> alt.Chart:
    ticks = marker(concave, axes, y=axes.height - 4, color=SERIES[1], shape="M0,-1L0,1")
    return ticks.encode(opacity=alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.35, 1]), legend=None))


def _reading(binned: pl.DataFrame, span: Span) -> str:
    text = (
        "Where each update ended on the parabola fitted along it. Around 0 the step reaches the minimum; "
        "lasting values far below mean timid steps, above 1 the step lands higher than it started."
    )
    if (binned["rows"] <= 1).all():
        return text
    return f"{text} Line: median of each {count(span.width())} steps; band: the middle 80 % of them."


def _outside(frame: pl.DataFrame) -> str:
    alpha = frame["alpha"].drop_nulls()
    beyond = len(alpha.filter((alpha < SHOWN[0]) | (alpha > SHOWN[1])))
    if not beyond:
        return ""
    return f"{percent(beyond / len(alpha))} of the values lie outside the axis and are drawn on its edge."


def _spoken(frame: pl.DataFrame) -> str:
    alpha, concave = frame["alpha"].drop_nulls(), frame["alpha_concave"].drop_nulls()
    share = f"{percent(_mean(concave))} of {count(len(concave))} fitted steps concave."
    return f"median {number(_quantile(alpha, 0.5))}, 90th percentile {number(_quantile(alpha, 0.9))}; {share}"


def _numbers(frame: pl.DataFrame) -> Numbers:
    """Alpha at the start and over all: quantiles, not a mean, which its tail would decide."""
    early = frame.filter(pl.col("step") < pl.col("step").first() + EARLY)
    rows = (
        [("all steps", frame)] if len(early) == len(frame) else [(f"first {EARLY} steps", early), ("all steps", frame)]
    )
    header = ("", "steps", "10 %", "median", "90 %", "above 1", "concave")
    return Numbers(header, tuple(_number_row(name, part) for name, part in rows))


def _number_row(name: str, frame: pl.DataFrame) -> tuple[str, ...]:
    alpha, concave = frame["alpha"].drop_nulls(), frame["alpha_concave"].drop_nulls()
    quantiles = (number(_quantile(alpha, share)) for share in (0.1, 0.5, 0.9))
    return (name, count(len(concave)), *quantiles, percent(_mean(alpha > 1)), percent(_mean(concave)))


def _quantile(values: pl.Series, share: float) -> float | None:
    return values.quantile(share, "linear")


def _mean(flags: pl.Series) -> float | None:
    return None if flags.is_empty() else float(flags.cast(pl.Float64).sum()) / len(flags)
