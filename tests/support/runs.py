"""Writes run directories by the schema, as a recorder would, for the tests of the analyzer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recorder import schema

RUN_ID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"

_ARROW = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "list<float64>": pa.list_(pa.float64()),
    "list<int64>": pa.list_(pa.int64()),
}

Columns = Mapping[str, Any]
"""A sequence of values per column; a single value stands for a column of it."""


def write_run(
    path: str | Path,
    steps: Columns | None = None,
    layers: Columns | None = None,
    events: Iterable[Mapping[str, Any]] = (),
    metrics: Columns | None = None,
    modules: Columns | None = None,
    histograms: Columns | None = None,
    *,
    manifest: Mapping[str, Any] | None = None,
    end: str | None = "completed",
    exception: str | None = None,
    attempt: int = 0,
    rank: int = 0,
    first_step: int = 0,
    shards: int = 1,
    run_id: str = RUN_ID,
) -> Path:
    """Writes the files of one attempt and rank, and returns the run directory.

    `steps` gets a column `step` counted from `first_step` if it has none. `layers` has the columns of the schema, or a
    mapping of columns for each tensor, whose rows then belong to the steps of `steps` (or to its own column `step`). An
    event is a mapping whose `detail` may be an object. `manifest` overrides keys of the run file. `end` None: the
    training was killed.
    """
    root = Path(path)
    root.mkdir(parents=True, exist_ok=True)
    step_columns = _with_steps(steps or {}, first_step)
    layer_columns = _layer_columns(layers or {}, step_columns["step"])
    names = list(dict.fromkeys(layer_columns.get("tensor", ())))
    content = run_file(attempt=attempt, first_step=first_step, run_id=run_id, tensors=tensor_entries(names)) | dict(
        manifest or {}
    )
    if rank == 0:
        (root / f"run-a{attempt:02d}.json").write_text(json.dumps(content))
    tables = {
        "steps": step_columns,
        "layers": layer_columns,
        "events": _event_columns(events),
        "metrics": metrics or {},
        "modules": modules or {},
        "histograms": histograms or {},
    }
    for name, columns in tables.items():
        write_shards(root, name, columns, attempt=attempt, rank=rank, shards=shards, run_id=run_id)
    if end is not None:
        (root / f"end-a{attempt:02d}-r{rank:03d}.json").write_text(
            json.dumps(end_file(step_columns["step"], end, exception, attempt, rank, run_id))
        )
    return root


def run_file(
    *, attempt: int = 0, first_step: int = 0, run_id: str = RUN_ID, tensors: Sequence[Any] = ()
) -> dict[str, Any]:
    """A run file with every key."""
    return {
        "format": schema.FORMAT,
        "recorder": "0.1.0",
        "run_id": run_id,
        "attempt": attempt,
        "first_step": first_step,
        "started": "2026-01-02T03:04:05+00:00",
        "host": "node7",
        "pid": 123,
        "rank_count": 1,
        "git_commit": None,
        "command": "python train.py",
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "device": "cpu",
        "mode": "train",
        "preset": "economy",
        "schedule": {"dense_steps": 100, "every": 16},
        "parameters": sum(_numel(item["shape"]) for item in tensors),
        "model": "Sequential",
        "tensors": list(tensors),
        "modules": [{"name": name, "type": "Linear"} for name in dict.fromkeys(item["module"] for item in tensors)],
        "groups": [{"optimizer": 0, "type": "SGD", "lr": 0.1, "options": {"momentum": 0.9, "weight_decay": 0.0}}],
        "loss": {"type": "CrossEntropyLoss", "reduction": "mean"},
        "instruments": [
            {"name": "loss", "columns": [{"table": "steps", "column": "loss", "unit": "", "description": ""}]}
        ],
        "hparams": {},
        "target": {},
    }


def tensor_entries(names: Iterable[str], **overrides: Any) -> list[dict[str, Any]]:
    """Entries of the run file for parameter tensors: `0.weight` is the weight of the linear module `0`."""
    return [
        {
            "name": name,
            "module": name.rpartition(".")[0],
            "module_type": "Linear",
            "shape": [8] if name.endswith("bias") else [8, 8],
            "dtype": "float32",
            "requires_grad": True,
            "group": 0,
        }
        | overrides
        for name in names
    ]


def end_file(
    steps: Sequence[int],
    status: str,
    exception: str | None = None,
    attempt: int = 0,
    rank: int = 0,
    run_id: str = RUN_ID,
) -> dict[str, Any]:
    """An end file with every key."""
    return {
        "format": schema.FORMAT,
        "run_id": run_id,
        "attempt": attempt,
        "rank": rank,
        "ended": "2026-01-02T04:04:05+00:00",
        "last_step": max(steps, default=None),
        "steps": len(steps),
        "status": status,
        "exception": exception,
    }


def write_shards(
    root: Path,
    table: str,
    columns: Columns,
    *,
    attempt: int = 0,
    rank: int = 0,
    shards: int = 1,
    sequence: int = 0,
    run_id: str = RUN_ID,
    version: int = schema.FORMAT,
) -> list[Path]:
    """Writes the rows of one table in `shards` shards numbered from `sequence`; no rows, no shard."""
    rows = arrow_table(table, columns)
    if rows.num_rows == 0:
        return []
    folder = root / table
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-rows.num_rows // shards)
    written = []
    for position, start in enumerate(range(0, rows.num_rows, size)):
        path = folder / f"a{attempt:02d}-r{rank:03d}-{sequence + position:06d}.parquet"
        part = rows.slice(start, size).replace_schema_metadata(
            {"glideslope.format": str(version), "glideslope.run_id": run_id}
        )
        strings = [item.name for item in part.schema if pa.types.is_dictionary(item.type)]
        pq.write_table(
            part, path, compression="zstd", use_dictionary=strings or False, row_group_size=max(1, part.num_rows)
        )
        written.append(path)
    return written


def arrow_table(table: str, columns: Columns) -> pa.Table:
    """The columns with the types of the schema, strings dictionary encoded; columns that are absent stay absent."""
    columns = _broadcast(columns)
    unknown = columns.keys() - schema.TABLES[table].columns.keys()
    if unknown:
        raise KeyError(f"{table} has no column {sorted(unknown)}")
    return pa.table({name: _array(values, schema.TABLES[table][name].dtype) for name, values in columns.items()})


def _array(values: Any, dtype: str) -> pa.Array:
    if isinstance(values, pa.DictionaryArray):
        return values
    array = values if isinstance(values, pa.Array) else pa.array(values, _ARROW[dtype], from_pandas=False)
    return array.dictionary_encode() if dtype == "string" else array


def _with_steps(columns: Columns, first_step: int) -> dict[str, Any]:
    columns = _broadcast(columns)
    if "step" not in columns:
        length = max((len(values) for values in columns.values()), default=0)
        columns = {"step": range(first_step, first_step + length), **columns}
    return columns


def _broadcast(columns: Columns) -> dict[str, Any]:
    """Single values (strings and None among them) as columns as long as the longest sequence."""
    lengths = [len(values) for values in columns.values() if _is_sequence(values)]
    length = max(lengths, default=1 if columns else 0)
    return {name: values if _is_sequence(values) else [values] * length for name, values in columns.items()}


def _is_sequence(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, str)


def _layer_columns(layers: Columns, steps: Sequence[int]) -> dict[str, Any]:
    """The columns of the schema, also out of `{tensor: {column: values}}`; rows ordered by step, then by tensor."""
    if not layers or not all(isinstance(value, Mapping) for value in layers.values()):
        return _broadcast(layers)
    parts = {tensor: _broadcast({"step": steps, **columns}) for tensor, columns in layers.items()}
    names = list(dict.fromkeys(name for columns in parts.values() for name in columns))
    rows = [
        (
            int(columns["step"][row]),
            position,
            {name: columns[name][row] if name in columns else None for name in names} | {"tensor": tensor},
        )
        for position, (tensor, columns) in enumerate(parts.items())
        for row in range(len(columns["step"]))
    ]
    rows.sort(key=lambda row: row[:2])
    return {name: [row[2][name] for row in rows] for name in (*names, "tensor")}


def _event_columns(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"step": 0, "time": 0.0, "message": "", "detail": {}}
    rows = [defaults | dict(event) for event in events]
    for row in rows:
        if not isinstance(row["detail"], str):
            row["detail"] = json.dumps(row["detail"])
    return {name: [row.get(name) for row in rows] for name in schema.EVENTS.columns} if rows else {}


def _numel(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
