"""Columns of a table read into memory: in the order of the steps, and each in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from recorder import schema

from .memo import per_run
from .resolve import Moves, disorder

if TYPE_CHECKING:
    from .run import Run

NEIGHBOURS = 25
"""Columns of `steps` that are read together: opening hundreds of shards costs more than a few columns in them."""


MOSTLY = 0.75
"""Share of nulls from which on a column is held as its values and their rows."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A column that is null at most of its `height` rows: its values, and at which rows they stand."""

    values: pl.Series
    rows: pl.Series
    height: int


Held = pl.Series | Sparse
"""A column in memory."""


def packed(series: pl.Series) -> Held:
    """A column as it takes the least memory, in one piece: expressions over hundreds of pieces are slow.

    Most of `steps` are null between the probes.
    """
    if not series.dtype.is_numeric() or series.null_count() < MOSTLY * series.len() or series.is_empty():
        return series.rechunk()
    return Sparse(series.drop_nulls().rechunk(), series.is_not_null().arg_true(), series.len())


def unpacked(held: Held) -> pl.Series:
    """The column as it was."""
    if isinstance(held, pl.Series):
        return held
    nulls = pl.repeat(None, held.height, dtype=held.values.dtype, eager=True).alias(held.values.name)
    return nulls.scatter(held.rows, held.values)


@per_run
def disorder_of(run: Run, table: str) -> Moves | None:
    """What puts the rows of a table in the order of the steps; None if they were written in it."""
    return disorder(run.written(table))


@per_run
def holds(run: Run, table: str, column: str) -> bool:
    """Whether a recorded column holds a value somewhere: reads up to the first."""
    first = run.written(table).select(column).filter(pl.col(column).is_not_null()).head(1)
    return not first.collect(engine="streaming").is_empty()


def amount(held: Held) -> int:
    """How many values a column has, NaN included."""
    return held.count() if isinstance(held, pl.Series) else held.values.len()


def read(run: Run, table: str, names: Sequence[str]) -> Iterator[tuple[str, Held]]:
    """Recorded columns of a table by name; of `steps` their neighbours too, but only if nothing of them is damaged."""
    moves = disorder_of(run, table)
    for part in _parts(table, names):
        for series in _collected(run.written(table), part, [name for name in part if name in names]):
            yield series.name, packed(_marked(series if moves is None else moves.of(series)))


def _marked(column: pl.Series) -> pl.Series:
    """The column; if it is that of the steps it is known to be sorted, and so grouped faster."""
    sound = column.name == "step" and column.null_count() == 0 and column.is_sorted()
    return column.set_sorted() if sound else column


def _parts(table: str, names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The columns that are read together."""
    if table != schema.STEPS.name:
        yield names
        return
    every = list(schema.STEPS.columns)
    for first in range(0, len(every), NEIGHBOURS):
        part = every[first : first + NEIGHBOURS]
        if not set(part).isdisjoint(names):
            yield part


def _collected(frame: pl.LazyFrame, names: Sequence[str], wanted: Sequence[str]) -> Iterator[pl.Series]:
    """The columns one by one, each let go of before the next; only those that are wanted, if all cannot be read."""
    try:
        read = frame.select(names).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        if len(wanted) == len(names):
            raise
        read = frame.select(wanted).collect()
    for name in read.columns:
        yield read.drop_in_place(name)
