"""Tensors or modules as rows of a chart: in forward order, neighbours joined where there are more than rows to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from recorder import schema

from ..wording import plural

if TYPE_CHECKING:
    from ..run import Run


@dataclass(frozen=True, slots=True)
class Rows:
    """`labels` in forward order; `of` has the columns `noun` and row (a label); `joined` of them share a row."""

    noun: str
    labels: tuple[str, ...]
    of: pl.DataFrame
    joined: int

    def note(self) -> str:
        """A sentence about joined rows, if there are any."""
        if self.joined == 1:
            return ""
        return f"A row stands for {plural(self.joined, self.noun)} that follow each other, named after the first."


def rows_of(run: Run, table: str, column: str, most: int) -> Rows:
    """The tensors or modules with values in a column of `layers` or `modules`, in at most `most` rows."""
    names = names_with(run, table, column)
    joined = max(1, -(-len(names) // most))
    labels = [_label(names[start : start + joined]) for start in range(0, len(names), joined)]
    noun = noun_of(table)
    frame = pl.DataFrame(
        {noun: names, "row": [labels[i // joined] for i in range(len(names))]},
        schema={noun: pl.String, "row": pl.String},
    )
    return Rows(noun, tuple(labels), frame, joined)


def noun_of(table: str) -> str:
    """What a table has a row for beside the step, and the name of that column: `tensor` or `module`.

    Raises KeyError for a table that has no such rows.
    """
    keys = schema.TABLES[table].keys
    if len(keys) != 2:
        raise KeyError(f"table {table} has no row for each tensor or module")
    return keys[1]


def names_with(run: Run, table: str, column: str) -> list[str]:
    """Names of the tensors or modules that have a value in a column, in forward order; unknown ones come last."""
    noun = noun_of(table)
    frame = run.frame(table, column)
    present = frame.filter(pl.col(column).is_not_null() & pl.col(noun).is_not_null())[noun]
    found = dict.fromkeys(present.unique(maintain_order=True).to_list())
    known: Sequence[str] = [item.name for item in (run.tensors if noun == "tensor" else run.manifest.modules)]
    return list(dict.fromkeys([*(name for name in known if name in found), *found]))


def _label(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
