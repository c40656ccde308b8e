"""Tensors or modules as rows of a chart: in forward order, neighbours joined where there are more than rows to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from recorder import schema

from ..memo import per_run
from ..units import forward_order
from ..wording import plural

if TYPE_CHECKING:
    from ..run import Run


@dataclass(frozen=True, slots=True)
class Rows:
    """`labels` in forward order, and `label_of` each of the names; `joined` of them share a row."""

    noun: str
    labels: tuple[str, ...]
    label_of: Mapping[str, str]
    joined: int

    def note(self) -> str:
        """A sentence about joined rows, if there are any."""
        if self.joined == 1:
            return ""
        return f"A row stands for {plural(self.joined, self.noun)} that follow each other, named after the first."

    def values(self, run: Run, table: str, column: str) -> pl.DataFrame:
        """The values of a column as row (a label), step and value; without nulls."""
        names, places = places_of(run, table)
        labels = pl.Series("row", [self.label_of.get(name) for name in names], dtype=pl.Enum(self.labels))
        frame = run.frame(table, column).select(labels.gather(places), "step", pl.col(column).alias("value"))
        return frame.drop_nulls() if sum(frame.null_count().row(0)) else frame


def rows_of(run: Run, table: str, column: str, most: int) -> Rows:
    """The tensors or modules with values in a column of `layers` or `modules`, in at most `most` rows."""
    names = names_with(run, table, column)
    joined = max(1, -(-len(names) // most))
    labels = [_label(names[start : start + joined]) for start in range(0, len(names), joined)]
    label_of = {name: labels[i // joined] for i, name in enumerate(names)}
    return Rows(noun_of(table), tuple(labels), label_of, joined)


def noun_of(table: str) -> str:
    """What a table has a row for beside the step, and the name of that column: `tensor` or `module`.

    Raises KeyError for a table that has no such rows.
    """
    keys = schema.TABLES[table].keys
    if len(keys) != 2:
        raise KeyError(f"table {table} has no row for each tensor or module")
    return keys[1]


@per_run
def names_with(run: Run, table: str, column: str = "step") -> tuple[str, ...]:
    """Names of the tensors or modules that have a value in a column, in forward order; unknown ones come last."""
    names, places = places_of(run, table)
    known = run.frame(table, column)[column].is_not_null()
    if column != "step" and known.all():  # what most columns have in common is looked for once
        return names_with(run, table)
    return tuple(names[place] for place in places.filter(known).drop_nulls().unique().sort())


@per_run
def places_of(run: Run, table: str) -> tuple[tuple[str, ...], pl.Series]:
    """All tensors or modules of a table in forward order, unknown ones last; and whose each of its rows is, by place.

    Charts count by these small numbers: names of millions of rows take far more time and memory.
    """
    noun = noun_of(table)
    column = run.frame(table)[noun]
    known = [item.name for item in (run.tensors if noun == "tensor" else run.manifest.modules)]
    places = column.cast(pl.Enum(known), strict=False)
    if places.null_count() > column.null_count():
        recorded = column.drop_nulls().unique(maintain_order=True)
        new = recorded.filter(~recorded.is_in(known)).to_list()
        known = known + new if noun == "tensor" else forward_order(run, known + new)
        places = column.cast(pl.Enum(known))
    return tuple(known), places.to_physical()


def _label(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
