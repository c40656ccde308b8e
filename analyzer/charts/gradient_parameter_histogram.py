"""The entries of the individual gradients against the parameters they belong to, early and late in the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from ..absence import why_absent
from ..noise import scalar
from ..wording import count, number, percent
from .base import Chart, Figure, Missing
from .entry_bins import EntryBins, entry_bins
from .grid import Colours, colour_of
from .marks import layered
from .over_steps import whole

if TYPE_CHECKING:
    from ..run import Run
    from .binning import Span

INSTRUMENT = "gradient-parameter-histogram"

HEIGHT = 260

NEAR = 1000
"""Steps at either end of the run within which counts are looked for first."""

COLOURS = Colours(title="% of the entries", offset=22)


class GradientParameterHistogram(Chart):
    """Share of the entries by gradient and by parameter, at the first and at the last probe that counted both."""

    name = "gradient-parameter-histogram"
    title = "Gradient against parameter"
    section = "gradients"
    shows = ("histograms.joint_counts",)

    def draw(self, run: Run) -> Figure | Missing:
        return next(self.figures(run))

    def figures(self, run: Run) -> Iterator[Figure | Missing]:
        gradient, parameter = (entry_bins(run, INSTRUMENT, part) for part in ("gradient", "parameter"))
        cells = _cells(run, gradient, parameter) if gradient and parameter else pl.DataFrame()
        if cells.is_empty() or not gradient or not parameter:
            yield Missing(self.title, why_absent(run, "histograms", "joint_counts"))
            return
        color = colour_of(cells["value"], COLOURS)
        for step, part in cells.partition_by("step", as_dict=True, include_key=False).items():
            title = f"{self.title}, step {count(int(step[0]))}"
            description = f"{title}: {_spoken(part, gradient)}"
            yield Figure(
                title=title,
                chart=_chart(part, cells, gradient, parameter, color, description),
                reading=(
                    "Entries of the gradients of single samples by the value of their parameter, all tensors together. "
                    "A healthy picture is a blob that is wide in both directions; gradients that grow with the "
                    "parameters (a butterfly) come from weight decay or from layers of different scale."
                ),
                description=description,
                renderer="canvas",
            )


def _cells(run: Run, gradient: EntryBins, parameter: EntryBins) -> pl.DataFrame:
    """Rows step, gradient, parameter (places of bins), value (% of the step's entries), without empty cells."""
    width, columns = len(gradient) * len(parameter), len(parameter)
    rows = run.written("histograms").filter(pl.col("joint_counts").list.len() == width)
    steps = _ends(rows, whole(run))
    place = pl.int_range(pl.len()).over("step", "tensor")
    return (
        rows.filter(pl.col("step").is_in(steps))
        .select("step", "tensor", "joint_counts")
        .explode("joint_counts")
        .with_columns(place.alias("place"))
        .group_by("step", "place")
        .agg(pl.col("joint_counts").sum().cast(pl.Float64).alias("total"))
        .with_columns(pl.col("total").sum().over("step").alias("all"))
        .filter(pl.col("total") > 0)
        .select(
            "step",
            (pl.col("place") // columns).alias("gradient"),
            (pl.col("place") % columns).alias("parameter"),
            (100 * pl.col("total") / pl.col("all")).alias("value"),
        )
        .sort("step", "gradient", "parameter")
        .collect()
    )


def _ends(rows: pl.LazyFrame, span: Span) -> list[int]:
    """The first and the last step of the rows, sought further and further from the ends of the run.

    Shards tell their steps without being read, so that few of them are.
    """
    step, reach = pl.col("step"), NEAR
    while True:
        first = rows.filter(step <= span.first + reach).select(step.min()).collect().item()
        last = rows.filter(step >= span.last - reach).select(step.max()).collect().item()
        if (first is not None and last is not None) or reach > span.last - span.first:
            return [found for found in (first, last) if found is not None]
        reach *= 8


def _chart(
    cells: pl.DataFrame,
    everything: pl.DataFrame,
    gradient: EntryBins,
    parameter: EntryBins,
    color: alt.Color,
    description: str,
) -> alt.LayerChart:
    chart: alt.Chart = (
        alt.Chart(cells)
        .transform_calculate(top="datum.gradient + 1", right="datum.parameter + 1")
        .mark_rect(aria=False)
        .encode(
            x=alt.X("parameter:Q", **_axis(everything["parameter"], parameter, "parameter")),
            x2=alt.X2("right:Q"),
            y=alt.Y("gradient:Q", **_axis(everything["gradient"], gradient, "entry of the gradient")),
            y2=alt.Y2("top:Q"),
            color=color,
            tooltip=[alt.Tooltip("value:Q", title=COLOURS.title, format=".3~g")],
        )
    )
    return layered([chart], HEIGHT, description)


def _axis(places: pl.Series, bins: EntryBins, title: str) -> dict[str, Any]:
    """Scale and axis over the bins that hold anything at either step."""
    low, high = int(places.min()), int(places.max()) + 1  # type: ignore[arg-type]
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    return {"scale": scale, "axis": {"title": title} | bins.ticks(low, high, most=7)}


def _spoken(cells: pl.DataFrame, gradient: EntryBins) -> str:
    middle = len(gradient) // 2
    around = scalar(cells.filter(pl.col("gradient") == middle)["value"].sum())
    return f"{percent(around / 100)} of the entries are below {number(gradient.edges[middle + 1], 2)} in magnitude."
