"""How the gradient changes with depth, at the start and at the end of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from ..absence import why_absent
from ..wording import number
from .base import Chart, Figure, Key, Missing
from .binning import finite
from .grid import SHORT
from .marks import SHORT_NUMBER, fit_domain, layered, log_ticks
from .rows import rows_of
from .theme import GRID, SERIES

if TYPE_CHECKING:
    from ..run import Run

ROWS = 40
MOMENTS = ("start", "end")


class GradientByDepth(Chart):
    """Gradient norm relative to the tensor's norm, by depth."""

    name = "gradient-by-depth"
    title = "Gradient by depth"
    section = "gradients"
    shows = ("layers.grad_ratio",)

    def draw(self, run: Run) -> Figure | Missing:
        """Two dots a tensor: medians over the first and the last tenth of the probes."""
        if not run.has("layers", "grad_ratio"):
            return Missing(self.title, why_absent(run, "layers", "grad_ratio"))
        rows = rows_of(run, "layers", "grad_ratio", ROWS)
        dots = _dots(rows.values(run, "layers", "grad_ratio"))
        if dots.is_empty():
            return Missing(self.title, "No gradient is finite and above zero in a tensor that is not zero itself.")
        description = _described(dots, list(rows.labels))
        return Figure(
            title=self.title,
            chart=_chart(dots, list(rows.labels), description),
            reading=(
                "Gradient norm over parameter norm, input at the top. A healthy network keeps it within a few decades; "
                "dots that drift left towards the top mean a vanishing gradient, to the right an exploding one."
            ),
            description=description,
            note=rows.note(),
            keys=tuple(
                Key(f"{moment} of the run", SERIES[i], symbol="ring" if i else "box")
                for i, moment in enumerate(MOMENTS)
            ),
        )


def _dots(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns row, moment, ratio: medians of positive values over the first and the last tenth of the probed steps."""
    steps = frame["step"].unique().sort()
    tenth = max(1, len(steps) // 10)
    early, late = steps[tenth - 1], steps[-tenth]
    moment = (
        pl.when(pl.col("step") <= early).then(pl.lit(MOMENTS[0])).when(pl.col("step") >= late).then(pl.lit(MOMENTS[1]))
    )
    return (
        frame.filter((pl.col("step") <= early) | (pl.col("step") >= late))
        .select(pl.col("row").cast(pl.String), moment.alias("moment"), finite("value").alias("ratio"))
        .filter(pl.col("ratio") > 0)
        .group_by("row", "moment")
        .agg(pl.col("ratio").median())
        .sort("row", "moment")
    )


def _chart(dots: pl.DataFrame, labels: list[str], description: str) -> alt.LayerChart:
    labels_axis = alt.Axis(
        title=None, labelExpr=SHORT, labelLimit=190, minExtent=0, grid=True, gridColor=GRID, labelFontSize=10
    )
    y = alt.Y("row:N", scale=alt.Scale(domain=labels), axis=labels_axis)
    domain = fit_domain(dots.select(lo="ratio", hi="ratio"), log=True)
    across: dict[str, Any] = {
        "scale": alt.Scale(type="log", domain=list(domain), nice=False),
        "axis": alt.Axis(
            title="gradient norm / parameter norm, log scale",
            labelExpr=SHORT_NUMBER,
            values=log_ticks(*domain),
            grid=True,
        ),
    }
    scale = alt.Scale(domain=list(MOMENTS), range=list(SERIES[:2]))
    shapes = alt.Scale(domain=list(MOMENTS), range=["square", "circle"])
    base = alt.Chart(dots).encode(y=y)
    links = base.mark_rule(color=GRID, strokeWidth=2, aria=False).encode(
        x=alt.X("min(ratio):Q", **across), x2=alt.X2("max(ratio)")
    )
    points = base.mark_point(size=46, strokeWidth=1.6, aria=False).encode(
        x=alt.X("ratio:Q", **across),
        color=alt.Color("moment:N", scale=scale, legend=None),
        shape=alt.Shape("moment:N", scale=shapes, legend=None),
        tooltip=[alt.Tooltip("row:N", title="tensor"), alt.Tooltip("moment:N"), alt.Tooltip("ratio:Q", format=".3~g")],
    )
    return layered([links, points], max(120, 15 * len(labels)), description)


def _described(dots: pl.DataFrame, labels: list[str]) -> str:
    moment = next(name for name in MOMENTS if name in dots["moment"])
    shown = dots.filter(pl.col("moment") == moment)
    ordered = [row for label in labels for row in shown.filter(pl.col("row") == label).iter_rows(named=True)]
    first, last = ordered[0], ordered[-1]
    ends = f"{number(first['ratio'])} in {first['row']}, {number(last['ratio'])} in {last['row']}"
    return f"Gradient norm over parameter norm by depth, at the {moment} of the run: {ends}."
