"""What the batches hold of each class, and how many of these are predicted: classes by steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from ..classes import class_table, classes_of
from ..wording import count, percent, plural
from .base import Chart, Figure, Missing, Section
from .grid import COLUMNS, Colours, grid, grid_chart
from .heatmap import longest
from .over_steps import whole

if TYPE_CHECKING:
    from ..run import Run
    from .binning import Span

ROWS = 40
"""Most rows; more classes share them."""


@dataclass(frozen=True, kw_only=True)
class ClassHeatmap(Chart):
    """A share in percent for each class and bin of steps. `shares` makes step, row, value of sums by bin."""

    name: str
    title: str
    section: Section = "data"
    column: str
    shares: Callable[[Run, Span], pl.DataFrame]
    colours: Colours
    reading: str

    @property
    def shows(self) -> tuple[str, ...]:  # type: ignore[override]
        """Its column."""
        return (f"steps.{self.column}",)

    def draw(self, run: Run) -> Figure | Missing:
        if not run.has("steps", self.column):
            return Missing(self.title, why_absent(run, "steps", self.column))
        span = whole(run)
        shares = self.shares(run, span)
        if shares.is_empty():
            return Missing(self.title, "The targets are not one class a sample.")
        labels = shares["row"].unique(maintain_order=True).to_list()
        cells = grid(shares, span, labels, log=False, longest=longest(run, shares["step"]))
        description = f"{self.title} over {span.words()}: {_spoken(shares, labels)}"
        return Figure(
            title=self.title,
            chart=grid_chart(cells, self.colours, description, noun="class"),
            reading=self.reading,
            description=description,
            renderer="canvas",
            wide=True,
        )


def _shares(run: Run, span: Span) -> pl.DataFrame:
    """The share of each class among the targets."""
    sums = _sums(run, "class_counts", span)
    total = pl.col("total").sum().over("step")
    return sums.filter(total > 0).select("step", "row", (100 * pl.col("total") / total).alias("value"))


def _recalls(run: Run, span: Span) -> pl.DataFrame:
    """The share of the targets of each class that were predicted."""
    hits = _sums(run, "class_hits", span)
    both = _sums(run, "class_counts", span).join(hits, on=("step", "row"), suffix="_hit", maintain_order="left")
    known = both.filter(pl.col("total") > 0)
    return known.select("step", "row", (100 * pl.col("total_hit") / pl.col("total")).alias("value"))


def _sums(run: Run, column: str, span: Span) -> pl.DataFrame:
    """Columns step (a bin's first), row, total; by row in order."""
    table = class_table(run, column, positive=False)
    names = classes_of(table)
    joined = max(1, -(-len(names) // ROWS))
    parts = [names[start : start + joined] for start in range(0, len(names), joined)]
    rows = [pl.sum_horizontal(part).alias(_label(part)) for part in parts]
    binned = table.select(span.bin_start(COLUMNS), *rows).group_by("step").agg(pl.all().sum()).sort("step")
    return binned.unpivot(index="step", variable_name="row", value_name="total")


def _label(part: list[str]) -> str:
    return f"class {part[0]}" if len(part) == 1 else f"classes {part[0]} to {part[-1]}"


def _spoken(shares: pl.DataFrame, labels: list[str]) -> str:
    means = shares.group_by("row", maintain_order=True).agg(pl.col("value").mean()).sort("value", maintain_order=True)
    (low, least), (high, most) = means.row(0), means.row(-1)
    ends = f"{percent(least / 100)} on average in {low}, {percent(most / 100)} in {high}"
    return f"{plural(len(labels), 'row')}, {ends}, {count(shares['step'].n_unique())} bins of steps."


CLASS_HEATMAPS: Mapping[str, ClassHeatmap] = MappingProxyType(
    {
        chart.name: chart
        for chart in (
            ClassHeatmap(
                name="class-balance",
                title="Classes in the batches",
                column="class_counts",
                shares=_shares,
                colours=Colours(title="% of the targets", log=False),
                reading=(
                    "The share of each class among the targets. Shuffled data makes even rows; stripes or a staircase "
                    "mean that the data are in order, and one bright row that a class prevails."
                ),
            ),
            ClassHeatmap(
                name="class-recall",
                title="Classes that are recognised",
                column="class_hits",
                shares=_recalls,
                colours=Colours(title="% predicted right", log=False, domain=(0.0, 100.0)),
                reading=(
                    "The share of the targets of each class that the model predicted, on the batches it trains on. A "
                    "row that stays dark is never predicted; two rows that take turns are being confused."
                ),
            ),
        )
    }
)
"""By name."""
