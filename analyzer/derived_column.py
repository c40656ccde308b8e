"""What a derived column is: its description, what it follows from, and the formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from recorder.schema import Column


@dataclass(frozen=True, slots=True)
class Derived:
    """A column and the recorded columns of the same table that it follows from, by an expression over sorted rows."""

    column: Column
    ingredients: tuple[str, ...]
    expression: Callable[[], pl.Expr]


def finite(value: pl.Expr) -> pl.Expr:
    """The value, null where it is not finite."""
    return pl.when(value.is_finite()).then(value)
