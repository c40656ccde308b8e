"""The kind of chart that shows a statistic of every tensor or module over the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from ..noise import scalar
from ..wording import count, number, plural
from .base import Chart, Figure, Missing, Section
from .grid import Colours, Grid, grid, grid_chart
from .over_steps import whole
from .rows import Rows, rows_of

if TYPE_CHECKING:
    from ..run import Run

ROWS = 80
"""Most rows; more tensors share them."""


@dataclass(frozen=True, kw_only=True)
class Heatmap(Chart):
    """A column of `layers` or `modules` by row in forward order (top to bottom) and bin of steps.

    `peaks`: whether a cell shows the highest value of its bin, so that no spike is lost, or the median. `dull`: a value
    that is not worth a picture if there is no other, with the sentence that says so instead.
    """

    name: str
    title: str
    section: Section
    table: str
    column: str
    colours: Colours
    reading: str
    peaks: bool = False
    dull: tuple[float, str] | None = None

    @property
    def shows(self) -> tuple[str, ...]:  # type: ignore[override]
        """Its column."""
        return (f"{self.table}.{self.column}",)

    def draw(self, run: Run) -> Figure | Missing:
        if not run.has(self.table, self.column):
            return Missing(self.title, why_absent(run, self.table, self.column))
        rows = rows_of(run, self.table, self.column, ROWS)
        values, span = rows.values(run, self.table, self.column), whole(run)
        if self.dull and (values["value"] == self.dull[0]).all():
            return Missing(self.title, self.dull[1])
        reach = longest(run, values["step"])
        cells = grid(values, span, rows.labels, log=self.colours.log, longest=reach, peaks=self.peaks)
        description = _described(cells, self.title, rows)
        return Figure(
            title=self.title,
            chart=grid_chart(cells, self.colours, description, noun=rows.noun),
            reading=self.reading + (" Of each bin of steps the highest value is shown." if self.peaks else ""),
            description=description,
            note=rows.note(),
            keys=cells.keys(),
            renderer="canvas",
            wide=True,
        )


def longest(run: Run, steps: pl.Series) -> int:
    """Steps that a cell may stand for: twice the distance of probes, by the schedule or as these steps have it."""
    every = run.manifest.schedule.get("every")
    usual = scalar(steps.unique().sort().diff().median())
    return 2 * max(every if isinstance(every, int) else 1, round(usual) if usual > 0 else 1)


def _described(of: Grid, title: str, rows: Rows) -> str:
    medians = of.cells.group_by("row").agg(pl.col("value").median()).drop_nulls().sort("value", "row")
    start = f"{title}: {plural(len(rows.labels), 'row')} of {rows.noun}s in forward order over {of.span.words()}. "
    if medians.is_empty():
        return start + "No value is finite and above zero."
    low, high = medians.row(0), medians.row(-1)
    bad = of.flags.filter(pl.col("kind") == "not finite").height
    odd = f" {count(bad)} cells are not finite." if bad else ""
    return start + f"Lowest median {number(low[1])} in {low[0]}, highest {number(high[1])} in {high[0]}.{odd}"
