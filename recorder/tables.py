"""Drained blocks as Arrow tables, by the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from torch import Tensor

from . import schema
from .buffer import Block, Row
from .consistency import unexplained

_TYPES = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "list<float64>": pa.list_(pa.float64()),
    "list<int64>": pa.list_(pa.int64()),
}
_SUMS = ("grad_var", "gsnr_sum", "gsnr_count", "hess_trace", "ggn_trace", "tic_sum", "tic_count")
_TOTALS: Mapping[str, Callable[[Tensor], Tensor]] = {
    **dict.fromkeys(("grad_norm", "grad_norm_clipped", "update_norm"), lambda values: values.square().sum(-1).sqrt()),
    **dict.fromkeys(_SUMS, lambda values: values.sum(-1)),
}
"""Columns of `steps` that total, over the tensors, the column of `layers` of that name: norms and sums."""


def steps_table(block: Block, checked: bool = True) -> tuple[pa.Table, dict[str, set[int]]]:
    """One row per step of the block, and the rows in which the check of `consistency.py` dropped values, by column."""
    columns = {name: _step_column(block, column) for name, column in schema.STEPS.columns.items()}
    dropped = {}
    for name, rows in unexplained(columns).items() if checked else ():
        values = columns.get(name)  # some are of tensors only
        if values is not None and any(values[i] is not None for i in rows):
            columns[name] = [None if i in rows else value for i, value in enumerate(values)]
            dropped[name] = rows
    return _table(schema.STEPS, columns), dropped


def layers_table(block: Block, kept: Sequence[int], names: Sequence[str]) -> pa.Table:
    """One row for each of the block's rows at the positions `kept` and each parameter tensor."""
    rows = [block.rows[i] for i in kept]
    steps = [row.host["step"] for row in rows for _ in names]
    columns: dict[str, Any] = {"step": steps, "tensor": _repeated(names, len(rows))}
    for name, column in schema.LAYERS.columns.items():
        if column.dtype == "float32":
            values = block.per_tensor(name)[list(kept)].tolist()
            columns[name] = [v for row, line in zip(rows, values, strict=True) for v in _written(row, name, line)]
    return _table(schema.LAYERS, columns)


def histograms_table(block: Block, names: Sequence[str]) -> pa.Table | None:
    """One row for each tensor with histograms in a row of the block; None if there is none."""
    found = [(row.host["step"], row.histograms) for row in block.rows if row.histograms is not None]
    if not found:
        return None
    columns: dict[str, Any] = {
        "step": [step for step, each in found for _ in each.positions],
        "tensor": [names[position] for _, each in found for position in each.positions],
        "counts": _lists([(each.counts, len(each.positions)) for _, each in found]),
        "joint_counts": _lists([(each.joint, len(each.positions)) for _, each in found]),
        "samples": [samples for _, each in found for samples in each.samples],
    }
    return _table(schema.HISTOGRAMS, columns)


def _lists(parts: Iterable[tuple[Tensor | None, int]]) -> pa.Array:
    """The rows of integer matrices as lists; for None, as many nulls as the number beside it."""
    kind = pa.list_(pa.int64())
    return pa.concat_arrays([pa.nulls(count, kind) if rows is None else _rows(rows) for rows, count in parts])


def _rows(matrix: Tensor) -> pa.Array:
    count, width = matrix.shape
    offsets = pa.array(range(0, (count + 1) * width, width), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(matrix.flatten().numpy()))


def rows_table(table: schema.Table, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Host rows as a table; a column that a row lacks is null."""
    rows = list(rows)
    return _table(table, {name: [row.get(name) for row in rows] for name in table.columns})


def _step_column(block: Block, column: schema.Column) -> list[Any] | None:
    """The values of a column of `steps`; None for one that no row has, which needs no look at each row."""
    if column.name in _TOTALS:
        return _totals(block, column.name)
    if column.dtype == "float64":
        return block.scalars(column.name)
    if column.dtype == "list<float64>" and column.name in block.vectors:
        values = block.vectors[column.name].tolist()
        return [v if column.name in row.vectors else None for row, v in zip(block.rows, values, strict=True)]
    values = [row.host.get(column.name) for row in block.rows]
    return None if all(value is None for value in values) else values


def _totals(block: Block, column: str) -> list[float | None] | None:
    if not any(column in row.tensors for row in block.rows):
        return None
    values = block.per_tensor(column).double()
    everywhere = _TOTALS[column](values).tolist()
    return [_total(row, column, values[i], everywhere[i]) for i, row in enumerate(block.rows)]


def _total(row: Row, column: str, values: Tensor, everywhere: float) -> float | None:
    """The total of one row: over all tensors, or over those that the column was written for."""
    if column not in row.tensors:
        return None
    positions = row.tensors[column]
    return everywhere if positions is None else float(_TOTALS[column](values[list(positions)]))


def _written(row: Row, column: str, values: list[float]) -> Sequence[float | None]:
    """The values of one row, with null for the tensors that had none."""
    if column not in row.tensors:
        return [None] * len(values)
    positions = row.tensors[column]
    if positions is None:
        return values
    present = set(positions)
    return [value if i in present else None for i, value in enumerate(values)]


def _repeated(names: Sequence[str], times: int) -> pa.Array:
    indices = pa.array(list(range(len(names))) * times, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _table(table: schema.Table, columns: dict[str, Any]) -> pa.Table:
    """An Arrow table by the schema; a column given as None is all null."""
    count = next(len(values) for values in columns.values() if values is not None)
    return pa.table(
        [_array(_TYPES[table[name].dtype], values, count) for name, values in columns.items()], list(columns)
    )


def _array(kind: pa.DataType, values: Any, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
