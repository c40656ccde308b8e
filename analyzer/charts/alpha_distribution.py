"""How alpha is distributed, early and later in the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from ..absence import why_absent
from ..wording import count, number, percent
from .alpha import EARLY, SHOWN
from .base import Chart, Figure, Key, Missing
from .marks import layered
from .theme import DASHES, HEIGHT, MUTED, SERIES

if TYPE_CHECKING:
    from ..run import Run

BIN = 0.1
"""Width of a bar, in units of alpha."""


class AlphaDistribution(Chart):
    """Share of steps by alpha: an outline for the first hundred steps, one for the rest."""

    name = "alpha-distribution"
    title = "Distribution of alpha"
    section = "step-size"

    def draw(self, run: Run) -> Figure | Missing:
        """A histogram over the axis that the chart over time has too; the outermost bars hold what lies beyond."""
        if not run.has("steps", "alpha"):
            return Missing(self.title, why_absent(run, "steps", "alpha"))
        frame = run.frame("steps", "alpha").drop_nulls("alpha").with_columns(_period(run).alias("series"))
        periods = frame["series"].unique(maintain_order=True).to_list()
        description = _described(frame, periods)
        return Figure(
            title=self.title,
            chart=_outlines(_shares(frame), periods, description),
            reading=(
                "Share of the steps by alpha; the outermost bars hold what lies beyond the axis. A good run is centred "
                "near 0 or a little above; a long right tail early on is the mark of steps that are too long."
            ),
            description=description,
            keys=tuple(Key(name, SERIES[i], DASHES[i]) for i, name in enumerate(periods)) if len(periods) > 1 else (),
        )


def _period(run: Run) -> pl.Expr:
    start = (run.first_step or 0) + EARLY
    if run.step_count <= EARLY:
        return pl.lit("all steps")
    return pl.when(pl.col("step") < start).then(pl.lit(f"first {EARLY} steps")).otherwise(pl.lit("after them"))


def _shares(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns series, alpha (left edge of a bin), share in percent; every bin of the axis has a row."""
    bins = round((SHOWN[1] - SHOWN[0]) / BIN)
    position = ((pl.col("alpha") - SHOWN[0]) / BIN).floor().clip(0, bins - 1).cast(pl.Int64).alias("bin")
    counted = frame.select("series", position).group_by("series", "bin").agg(pl.len().alias("n"))
    grid = frame.select(pl.col("series").unique(maintain_order=True)).join(
        pl.DataFrame({"bin": range(bins + 1)}), how="cross"
    )
    return (
        grid.join(counted, on=["series", "bin"], how="left", maintain_order="left")
        .with_columns(pl.col("n").fill_null(0))
        .select(
            "series",
            (SHOWN[0] + pl.col("bin") * BIN).round(6).alias("alpha"),
            (100 * pl.col("n") / pl.col("n").sum().over("series")).alias("share"),
        )
    )


def _outlines(shares: pl.DataFrame, periods: list[str], description: str) -> alt.LayerChart:
    x = alt.X("alpha:Q", scale=alt.Scale(domain=list(SHOWN), nice=False), axis=alt.Axis(title="alpha", format="~g"))
    y = alt.Y("share:Q", axis=alt.Axis(title="% of the steps"))
    colors = alt.Scale(domain=periods, range=list(SERIES[: len(periods)]))
    dashes = alt.Scale(domain=periods, range=[list(DASHES[i]) or [1, 0] for i in range(len(periods))])
    base = alt.Chart(shares).encode(x=x, color=alt.Color("series:N", scale=colors, legend=None))
    landmarks = alt.Chart(pl.DataFrame({"alpha": [-1.0, 0.0, 1.0]})).mark_rule(
        color=MUTED, strokeDash=[2, 3], aria=False
    )
    layers = [
        landmarks.encode(x=x),
        base.mark_area(opacity=0.15, interpolate="step-after", aria=False).encode(y=y.stack(None)),
        base.mark_line(interpolate="step-after", aria=False).encode(
            y=y, strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=None)
        ),
    ]
    return layered(layers, HEIGHT, description)


def _described(frame: pl.DataFrame, periods: list[str]) -> str:
    parts = []
    for name in periods:
        alpha = frame.filter(pl.col("series") == name)["alpha"]
        above = percent(len(alpha.filter(alpha > 1)) / len(alpha))
        parts.append(
            f"{name}: median {number(alpha.quantile(0.5, 'linear'))}, {above} above 1 ({count(len(alpha))} values)"
        )
    return "Distribution of alpha. " + "; ".join(parts) + "."
