"""The kind of most charts: columns of the table of steps as lines over the steps of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from .base import Chart, Figure, Missing, Section
from .optimizers import by_optimizer, turns
from .over_steps import Style, over_steps

if TYPE_CHECKING:
    from ..run import Run


PLAIN = Style()


@dataclass(frozen=True, kw_only=True)
class Quantity(Chart):
    """Columns of `steps` over the steps. `lines`: a label for each column; one column alone needs none.

    `beside`: more of them, which are drawn only where one of these is. Where several optimizers take turns, one column
    becomes a line for each, several become a figure for each.
    `dull`: a value that is not worth a picture if a column never has another, with the sentence that says so instead.
    """

    name: str
    title: str
    section: Section
    lines: Mapping[str, str]
    reading: str
    beside: Mapping[str, str] = field(default_factory=dict)
    style: Style = PLAIN
    dull: tuple[float, str] | None = None
    wide: bool = False

    @property
    def shows(self) -> tuple[str, ...]:  # type: ignore[override]
        """Its columns."""
        return tuple(f"steps.{column}" for column in self.lines.values())

    def draw(self, run: Run) -> Figure | Missing:
        return next(self.figures(run))

    def figures(self, run: Run) -> Iterator[Figure | Missing]:
        recorded = {label: column for label, column in self.lines.items() if run.has("steps", column)}
        beside = {label: column for label, column in self.beside.items() if run.has("steps", column)}
        if not recorded:
            yield Missing(self.title, why_absent(run, "steps", *self.lines.values()))
        elif self.dull and _only(run, recorded, self.dull[0]):
            yield Missing(self.title, self.dull[1])
        elif len(recorded | beside) == 1:
            yield self._alone(run, *recorded.values())
        else:
            yield from self._together(run, recorded | beside)

    def _alone(self, run: Run, column: str) -> Figure:
        frame, optimizers = by_optimizer(run, column)
        return self._figure(run, frame, optimizers, self.title)

    def _together(self, run: Run, columns: Mapping[str, str]) -> Iterator[Figure]:
        frame = run.frame("steps", "optimizer", *columns.values())
        for name, part in turns(run, frame).items():
            values = [_line(part, label, column) for label, column in columns.items() if part[column].count()]
            if values:
                labels = tuple(str(value["series"][0]) for value in values)
                yield self._figure(run, pl.concat(values), labels, f"{self.title}, {name}" if name else self.title)

    def _figure(self, run: Run, frame: pl.DataFrame, series: tuple[str, ...], title: str) -> Figure:
        return over_steps(
            run, frame, "value", title=title, reading=self.reading, style=self.style, series=series, wide=self.wide
        )


def _line(frame: pl.DataFrame, label: str, column: str) -> pl.DataFrame:
    value = pl.col(column).cast(pl.Float64).alias("value")
    return frame.select("step", pl.lit(label).alias("series"), value).drop_nulls("value")


def _only(run: Run, columns: Mapping[str, str], value: float) -> bool:
    """Whether no column has another value."""
    frame = run.frame("steps", *columns.values())
    return all((frame[column].drop_nulls().cast(pl.Float64) == value).all() for column in columns.values())
