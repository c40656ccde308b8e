"""Columns that follow from recorded ones: one formula, one place. The recorder measures only the ingredients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import polars as pl

from recorder import schema
from recorder.schema import Column

from .alpha import ALPHA
from .clock import CLOCK
from .derived_column import Derived
from .gradient_noise import NOISE, NOISE_OF_TENSORS


def _ratio(name: str) -> Callable[[], pl.Expr]:
    """The column over the tensor's norm; null for a tensor that is zero, whose relative change means nothing."""
    return lambda: pl.when(pl.col("param_norm") != 0).then(pl.col(name) / pl.col("param_norm"))


def _beside() -> pl.Expr:
    """The difference of loss and part; zero where it is no more than rounding."""
    left = pl.col("loss") - pl.col("loss_part")
    return pl.when(left.abs() > 1e-5 * pl.col("loss").abs()).then(left).otherwise(left * 0)


_STEPS = (
    Derived(
        Column("lr_max", "float64", "", "largest learning rate among the parameter groups"),
        ("lr",),
        lambda: pl.col("lr").list.max(),
    ),
    Derived(
        Column("loss_se", "float64", "", "standard error of the batch's mean loss, from the individual losses"),
        ("loss_var", "loss_count"),
        lambda: pl.when(pl.col("loss_count") > 0).then((pl.col("loss_var") / pl.col("loss_count")).sqrt()),
    ),
    Derived(
        Column("loss_beside", "float64", "", "what the loss holds beside the losses that were seen being called"),
        ("loss", "loss_part"),
        _beside,
    ),
    *ALPHA,
    *NOISE,
    *CLOCK,
)

_LAYERS = (
    Derived(
        Column("update_ratio", "float32", "", "norm of the update relative to the norm of the tensor"),
        ("update_norm", "param_norm"),
        _ratio("update_norm"),
    ),
    Derived(
        Column("grad_ratio", "float32", "", "norm of the gradient relative to the norm of the tensor"),
        ("grad_norm", "param_norm"),
        _ratio("grad_norm"),
    ),
    *NOISE_OF_TENSORS,
)

DERIVED: Mapping[str, Mapping[str, Derived]] = MappingProxyType(
    {
        schema.STEPS.name: MappingProxyType({item.column.name: item for item in _STEPS}),
        schema.LAYERS.name: MappingProxyType({item.column.name: item for item in _LAYERS}),
    }
)
"""Derived columns by table and name."""


def with_derived(table: str, frame: pl.LazyFrame, names: Iterable[str] | None = None) -> pl.LazyFrame:
    """The frame, sorted by step, with the table's derived columns: all of them, or those named."""
    every = DERIVED.get(table, {})
    return frame.with_columns(every[name].expression().alias(name) for name in (every if names is None else names))


def roots(table: str, name: str) -> tuple[str, ...]:
    """The recorded columns that the formula of a column reads: itself, if it is recorded."""
    derived = DERIVED.get(table, {}).get(name)
    return (name,) if derived is None else tuple(dict.fromkeys(derived.expression().meta.root_names()))


def that_follow(table: str, columns: Iterable[str]) -> list[str]:
    """The derived columns of a table whose formulas read no other columns than these."""
    return [name for name in DERIVED.get(table, {}) if set(roots(table, name)) <= set(columns)]


def column(table: str, name: str) -> Column:
    """Unit and description of a recorded or derived column. Raises KeyError, saying which there are."""
    derived = DERIVED.get(table, {})
    recorded = schema.TABLES[table].columns
    if name in derived:
        return derived[name].column
    if name in recorded:
        return recorded[name]
    raise KeyError(f"table {table} has no column {name!r}; it has {', '.join((*recorded, *derived))}")


def quantity(table: str, name: str) -> str:
    """What a column measures: its description without what a colon or a semicolon adds."""
    return column(table, name).description.partition(":")[0].partition(";")[0]


def ingredients(table: str, name: str) -> tuple[str, ...]:
    """The recorded columns that a column follows from: itself, if it is recorded."""
    derived = DERIVED.get(table, {})
    return derived[name].ingredients if name in derived else (name,)
