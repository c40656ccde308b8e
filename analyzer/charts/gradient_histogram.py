"""How the entries of the individual gradients are distributed, over the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from ..absence import why_absent
from ..noise import scalar
from ..wording import count, number, percent, plural
from .base import Chart, Figure, Missing
from .entry_bins import EntryBins, entry_bins
from .grid import COLUMNS, OVERLAP, Colours, across, colour_of
from .heatmap import longest
from .marks import over
from .over_steps import whole

if TYPE_CHECKING:
    from ..run import Run
    from .binning import Span

INSTRUMENT = "gradient-histogram"

MOST = 40_000
"""Rows of counts that are read, of probes spread evenly over the run: each holds dozens of numbers."""
SHARDS = 32
"""Shards that are looked into where there are more: unpacking counts takes far longer than reading anything else."""

HEIGHT = 240

COLOURS = Colours(title="% of the entries", offset=22)


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows step, until, place (of a bin), value (% of the entries), without empty cells.

    How many probes were read, and of how many; None for a run so long that not all were looked at.
    """

    cells: pl.DataFrame
    read: int
    probes: int | None


class GradientHistogram(Chart):
    """Share of the entries of the individual gradients in each bin, all tensors together."""

    name = "gradient-histogram"
    title = "Entries of the gradient"
    section = "gradients"
    shows = ("histograms.counts",)

    def draw(self, run: Run) -> Figure | Missing:
        bins, span = entry_bins(run, INSTRUMENT), whole(run)
        if not run.has("histograms", "samples") or bins is None:
            return Missing(self.title, why_absent(run, "histograms", "counts"))
        counts = _counts(run, span, len(bins))
        if counts.cells.is_empty():
            return Missing(self.title, why_absent(run, "histograms", "counts"))
        description = f"{self.title} over {span.words()}: {_spoken(counts.cells, bins)}"
        return Figure(
            title=self.title,
            chart=_chart(counts.cells, bins, span, description),
            reading=(
                "How the entries of the gradients of single samples are spread: a column for each bin of steps, zero "
                "in the middle, magnitudes by powers of ten to both sides. A bulk that narrows towards zero is a "
                "vanishing gradient; entries that reach the edges are exploding or not finite."
            ),
            description=description,
            note=_note(counts, bins),
            renderer="canvas",
            wide=True,
        )


def _counts(run: Run, span: Span, width: int) -> Counts:
    tensors = max(1, len(run.tensors))
    rows, whole_run = run.excerpt("histograms", SHARDS, tensors * max(1, MOST // tensors // SHARDS))
    rows = rows.filter(pl.col("samples").is_not_null() & span.covers())
    probes = rows.select("step").unique().sort("step").collect(engine="streaming")["step"]
    chosen = probes.gather_every(max(1, -(-len(probes) * tensors // MOST)))
    totals = _totals(rows.filter(pl.col("step").is_in(chosen.to_list())), span, width)
    reach = longest(run, chosen if whole_run else totals["step"])
    return Counts(_cells(totals, span, reach), len(chosen), len(probes) if whole_run else None)


def _totals(rows: pl.LazyFrame, span: Span, width: int) -> pl.DataFrame:
    """For each bin of steps, by its first, the sum of the counts in a column for each of their `width` places."""
    return (
        rows.filter(pl.col("counts").list.len() == width)
        .group_by(span.bin_start(COLUMNS))
        .agg(pl.col("counts").list.get(i).sum().cast(pl.Float64).alias(str(i)) for i in range(width))
        .sort("step")
        .collect(engine="streaming")
    )


def _cells(totals: pl.DataFrame, span: Span, reach: int) -> pl.DataFrame:
    """The cells of the picture, each until the next bin that was counted, but for at most `reach` steps or a bin."""
    places = [name for name in totals.columns if name != "step"]
    until = pl.min_horizontal(
        pl.col("step").shift(-1).fill_null(span.last + 1), pl.col("step") + max(span.width(COLUMNS), reach)
    )
    return (
        totals.with_columns(until.alias("until"))
        .unpivot(places, index=["step", "until"], variable_name="place", value_name="total")
        .with_columns(pl.col("place").cast(pl.Int64), pl.col("total").sum().over("step").alias("all"))
        .filter(pl.col("total") > 0)
        .select("step", "until", "place", (100 * pl.col("total") / pl.col("all")).alias("value"))
        .sort("place", "step")
    )


def _chart(cells: pl.DataFrame, bins: EntryBins, span: Span, description: str) -> alt.LayerChart:
    low, high = int(cells["place"].min()), int(cells["place"].max()) + 1  # type: ignore[arg-type]
    axis: dict[str, Any] = {"title": "entry of the gradient"} | bins.ticks(low, high)
    chart: alt.Chart = (
        alt.Chart(cells)
        .transform_calculate(top="datum.place + 1")
        .mark_rect(aria=False, x2Offset=OVERLAP)
        .encode(
            y=alt.Y("place:Q", scale=alt.Scale(domain=[low, high], nice=False, zero=False), axis=axis),
            y2=alt.Y2("top:Q"),
            color=colour_of(cells["value"], COLOURS),
            tooltip=[
                alt.Tooltip("step:Q", title="step", format=",d"),
                alt.Tooltip("value:Q", title=COLOURS.title, format=".3~g"),
            ],
            **across(),
        )
    )
    return over(span, [chart], HEIGHT, description)


def _spoken(cells: pl.DataFrame, bins: EntryBins) -> str:
    """Between which magnitudes nine tenths of the entries lay, at the start and at the end."""
    first, last = cells["step"].min(), cells["step"].max()
    start, end = (_magnitude(cells.filter(pl.col("step") == step), bins) for step in (first, last))
    return f"nine tenths of the entries below {number(start, 2)} at first, {number(end, 2)} at last, in magnitude."


def _magnitude(cells: pl.DataFrame, bins: EntryBins) -> float:
    """The smallest edge below which 90 % of the entries lie in magnitude."""
    middle = len(bins) // 2
    away = cells.group_by((pl.col("place") - middle).abs().alias("away")).agg(pl.col("value").sum()).sort("away")
    within = away.filter(pl.col("value").cum_sum() < 90).height
    place = middle + 1 + int(away["away"][min(within, away.height - 1)])
    return bins.edges[min(place, len(bins.edges) - 2)]


def _note(counts: Counts, bins: EntryBins) -> str:
    outer = scalar(counts.cells.filter(pl.col("place").is_in([0, len(bins) - 1]))["value"].sum())
    total = scalar(counts.cells["value"].sum())
    edge = number(bins.edges[-2])
    beyond = f"{percent(outer / total)} of the entries are beyond \u00b1{edge} or not finite." if outer else ""
    return " ".join(part for part in (beyond, _read(counts)) if part)


def _read(counts: Counts) -> str:
    """A sentence about probes that were left out, if any were."""
    if counts.probes is None:
        return f"{plural(counts.read, 'probe')}, spread over the run, {'were' if counts.read > 1 else 'was'} read."
    return f"Of {count(counts.probes)} probes {count(counts.read)} were read." if counts.read < counts.probes else ""
