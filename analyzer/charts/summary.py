"""The key numbers of a column, for the table and the spoken description of its chart. They come from every row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from ..wording import count, number, plural
from .base import Numbers
from .binning import Span, finite, nonfinite


@dataclass(frozen=True, slots=True)
class Summary:
    """First, last and extreme values of a series, the steps where they stood, and how many values were not finite."""

    name: str
    first: float | None
    last: float | None
    low: float | None
    low_step: int | None
    high: float | None
    high_step: int | None
    bad: int
    first_bad: int | None

    def spoken(self) -> str:
        """The series as a clause: `loss from 2.31 to 0.04, between 0.03 (step 480) and 2.4 (step 2)`."""
        if self.first is None:
            return f"{self.name}: no finite value"
        low = f"{number(self.low)} (step {count(self.low_step)})"
        high = f"{number(self.high)} (step {count(self.high_step)})"
        odd = f", not finite at {plural(self.bad, 'step')} from step {count(self.first_bad)}" if self.bad else ""
        return f"{self.name} from {number(self.first)} to {number(self.last)}, between {low} and {high}{odd}"


def summarise(frame: pl.DataFrame, column: str, span: Span, by: str | None = None) -> list[Summary]:
    """A summary for each series of `column` within `span`, in order of appearance; `by` names the column of series."""
    name = pl.col(by).cast(pl.String) if by else pl.lit(column)
    rows = (
        frame.lazy()
        .filter(span.covers() & pl.col(column).is_not_null())
        .select("step", name.alias("name"), finite(column).alias("value"), nonfinite(column).alias("bad"))
        .group_by("name", maintain_order=True)
        .agg(
            first=pl.col("value").drop_nulls().first(),
            last=pl.col("value").drop_nulls().last(),
            low=pl.col("value").min(),
            low_step=_step_of(pl.col("value").arg_min()),
            high=pl.col("value").max(),
            high_step=_step_of(pl.col("value").arg_max()),
            bad=pl.col("bad").sum(),
            first_bad=pl.col("step").filter(pl.col("bad")).first(),
        )
        .collect()
    )
    return [Summary(**row) for row in rows.iter_rows(named=True)]


def tabulate(summaries: list[Summary], name: str = "", most: int = 12) -> Numbers:
    """The summaries as a table: first, last, lowest and highest, and non-finite counts; `name` renames a single row."""
    anything_bad = any(item.bad for item in summaries)
    header = ("", "first", "last", "lowest", "at step", "highest", "at step") + (
        ("not finite",) if anything_bad else ()
    )
    shown = [replace(item, name=name or item.name) for item in summaries[:most]]
    return Numbers(header, tuple(_row(item, anything_bad) for item in shown))


def spoken(summaries: list[Summary], most: int = 4) -> str:
    """The summaries as one sentence."""
    clauses = [item.spoken() for item in summaries[:most]]
    rest = [f"{len(summaries) - most} more"] if len(summaries) > most else []
    return "; ".join(clauses + rest) + "."


def _row(item: Summary, anything_bad: bool) -> tuple[str, ...]:
    cells = (
        item.name,
        number(item.first),
        number(item.last),
        number(item.low),
        count(item.low_step),
        number(item.high),
        count(item.high_step),
    )
    return cells + ((plural(item.bad, "step") if item.bad else "\u2013",) if anything_bad else ())


def _step_of(position: pl.Expr) -> pl.Expr:
    return pl.col("step").get(position, null_on_oob=True)
