"""A long healthy training of a deep classifier, synthetic, in the shards of a recorder with preset full."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support.runs import RUN_ID, end_file, run_file
from support.synthetic import leaf, loss_input, wiring

from recorder import schema
from recorder.directory import parquet
from recorder.instruments import PRESETS
from recorder.schedule import DENSE_STEPS, SPARSER
from recorder.tables import _TYPES
from recorder.writer import flush_interval

STEP_SECONDS = 0.05
BLOCK = 64
"""Steps that are drained at once."""
CLASSES = 10
BATCH = 128
METRICS_EVERY = 1000
INCIDENTS = 8
"""Steps whose gradient jumps, so that those around them are kept in full, and written late."""
JUMP = {"what": "jump", "column": "grad_norm"}
EVALUATION = {
    "split": "valid",
    "training_share": 0.0,
    "input_mean": 0.0,
    "input_std": 1.0,
    "input_absmax": 4.0,
    "input_nonfinite": 0.0,
}
"""Details of events."""
KINDS = ("linear.weight", "linear.bias", "norm.weight", "norm.bias")
"""The tensors of a block."""

Columns = dict[str, Any]


@dataclass(frozen=True)
class Long:
    """How long a run is, and of how many tensors."""

    steps: int
    tensors: int
    every: int

    def names(self) -> list[str]:
        """Of the tensors, in forward order: four to a block, and a classifier."""
        return [*(f"blocks.{i // 4}.{KINDS[i % 4]}" for i in range(self.tensors - 2)), "head.weight", "head.bias"]

    def activations(self) -> list[str]:
        """The modules whose units are looked at: one to a block."""
        return [f"blocks.{i}.act" for i in range((self.tensors + 1) // 4)]

    def probed(self, steps: np.ndarray) -> np.ndarray:
        """Which of the steps are probed."""
        return (steps >= 0) & ((steps < DENSE_STEPS) | (steps % self.every == 0))

    def incidents(self) -> np.ndarray:
        """Steps at which the gradient jumps, spread over the run."""
        return (np.arange(1, INCIDENTS + 1) * self.steps) // (INCIDENTS + 1)

    def flushes(self) -> Iterator[range]:
        """The steps of each shard: as many as were drained between two flushes."""
        first, elapsed, flushes = 0, 0.0, 0
        while first < self.steps:
            elapsed += flush_interval(flushes, elapsed)
            flushes += 1
            last = min(self.steps, max(first + BLOCK, int(elapsed / STEP_SECONDS) // BLOCK * BLOCK))
            yield range(first, last)
            first = last


def write(root: Path, long: Long) -> Path:
    """Writes the run, shard by shard."""
    root.mkdir(parents=True)
    (root / schema.run_file_name(0)).write_text(json.dumps(_manifest(long)))
    rng, pools = np.random.default_rng(0), _pools(np.random.default_rng(1))
    written: Counter[str] = Counter()
    for steps in long.flushes():
        at = np.arange(steps.start, steps.stop)
        tables = {
            "steps": _steps(rng, long, at),
            "layers": _layers(rng, long, _kept(long, at)),
            "modules": _modules(rng, long, at[long.probed(at)]),
            "histograms": _histograms(rng, long, at[long.probed(at)], pools),
            "metrics": _metrics(rng, long, at),
            "events": _events(long, at),
        }
        for name, columns in tables.items():
            if len(columns["step"]):
                _shard(root, name, columns, written[name])
                written[name] += 1
    content = end_file(range(long.steps - 1, long.steps), "completed") | {"steps": long.steps}
    (root / schema.end_file_name(0, 0)).write_text(json.dumps(content))
    return root


def _shard(root: Path, table: str, columns: Columns, sequence: int) -> None:
    """A file as the recorder writes it: every column of the schema, null where there are no values."""
    height = len(columns["step"])
    types = {name: _TYPES[column.dtype] for name, column in schema.TABLES[table].columns.items()}
    arrays = [_array(columns.get(name), kind, height) for name, kind in types.items()]
    path = root / schema.shard_name(table, 0, 0, sequence)
    path.parent.mkdir(exist_ok=True)
    metadata = {"glideslope.format": str(schema.FORMAT), "glideslope.run_id": RUN_ID}
    path.write_bytes(parquet(pa.table(arrays, list(types)), metadata))


def _array(values: Any, kind: pa.DataType, height: int) -> pa.Array:
    if values is None:
        return pa.nulls(height, kind)
    if isinstance(values, pa.Array):
        return values
    return pa.array(np.broadcast_to(values, height) if np.ndim(values) == 0 else values, kind)


def _steps(rng: np.random.Generator, long: Long, at: np.ndarray) -> Columns:
    """A loss that falls with noise; the rest as in a sound training, at probes or at the steps after them."""
    probe, after, size = long.probed(at), long.probed(at - 1), len(at)
    curvature = at % (SPARSER * long.every) == 0

    def around(level: float, where: np.ndarray, spread: float = 0.2) -> pa.Array:
        return pa.array(level * np.exp(spread * rng.standard_normal(size)), pa.float64(), mask=~where)

    def exactly(value: float, where: np.ndarray, kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(np.full(size, value), mask=~where).cast(kind or pa.float64())

    always, whole = np.full(size, fill_value=True), pa.int64()
    loss = (2.25 * np.exp(-6 * at / long.steps) + 0.05) * np.exp(0.1 * rng.standard_normal(size))
    counts = rng.multinomial(BATCH, [1 / CLASSES] * CLASSES, size)
    logits = np.minimum(0.3 + at / 1e3, 9) * np.exp(0.1 * rng.standard_normal((2, size)))
    gradient = np.exp(0.2 * rng.standard_normal(size)) * np.where(np.isin(at, long.incidents()), 30, 1)
    slopes = -0.01 * np.exp(0.2 * rng.standard_normal(size))
    return {
        "step": at,
        "optimizer": 0,
        "time": at * STEP_SECONDS,
        "duration": around(0.9 * STEP_SECONDS, always, 0.05),
        "probed": probe,
        "batch_size": exactly(BATCH, probe | after, whole),
        "micro_batches": 1,
        "loss": loss,
        "lr": _lists(_rate(long, at)[:, None], always),
        "grad_norm": gradient,
        "update_norm": around(0.1, probe),
        "loss_var": around(0.25, probe | after),
        "loss_count": exactly(BATCH, probe | after, whole),
        "start_slope": pa.array(slopes, mask=~probe),
        "start_slope_var": around(1e-4, probe),
        "end_slope": pa.array(0.4 * slopes * rng.standard_normal(size), mask=~after),
        "end_slope_var": around(1e-4, after),
        "slope_count": exactly(BATCH, probe | after, whole),
        "end_slope_total": None,
        "grad_var": around(20, probe),
        "gsnr_sum": around(5e3, probe),
        "gsnr_count": exactly(1e5, probe),
        "inner_mean": pa.array(gradient**2, mask=~probe),
        "inner_var": around(3, probe),
        "individual_count": exactly(BATCH, probe, whole),
        **{name: around(50, curvature) for name in ("hess_trace", "ggn_trace", "tic_sum", "hess_max_ev")},
        "tic_count": exactly(1e5, curvature),
        "hess_max_ev_residual": around(0.01, curvature),
        "training_share": exactly(1, probe),
        "input_mean": around(0.01, probe),
        "input_std": around(1, probe, 0.01),
        "input_absmax": around(4, probe),
        "input_spread": around(2, probe),
        "input_nonfinite": exactly(0, probe),
        "prediction_min": pa.array(-logits[0], mask=~probe),
        "prediction_max": pa.array(logits[1], mask=~probe),
        "prediction_sum_min": around(-5, probe),
        "prediction_sum_max": around(5, probe),
        "target_min": exactly(0, probe),
        "target_max": exactly(CLASSES - 1, probe),
        "class_counts": _lists(counts.astype(float), probe),
        "class_hits": _lists(np.floor(counts * 0.8), probe),
    }


def _rate(long: Long, at: np.ndarray) -> np.ndarray:
    """Warm-up over a hundredth of the run, then a cosine."""
    return 0.1 * np.minimum((at + 1) / (long.steps / 100), 0.5 * (1 + np.cos(np.pi * at / long.steps)))


def _kept(long: Long, at: np.ndarray) -> np.ndarray:
    """Steps whose layers are written, in the order of writing: probes, and about incidents what was held before."""
    kept, incidents = [], set(long.incidents() // BLOCK)
    for block in np.split(at, range(BLOCK, len(at), BLOCK)):
        number = int(block[0]) // BLOCK
        if number in incidents:
            held = np.arange(max(0, block[0] - BLOCK), block[0])
            kept += [held[~long.probed(held)], block]
        else:
            kept.append(block[long.probed(block)])
    return np.concatenate(kept)


def _layers(rng: np.random.Generator, long: Long, steps: np.ndarray) -> Columns:
    """Statistics of each tensor at these steps, log-normal around a level of its own."""
    tensors, rows = long.tensors, len(steps) * long.tensors
    at, level = np.repeat(steps, tensors), np.tile(np.linspace(0.5, 1, tensors), len(steps))
    curvature = at % (SPARSER * long.every) == 0
    matrix = np.tile([name.endswith(("linear.weight", "head.weight")) for name in long.names()], len(steps))

    def around(center: float | np.ndarray, where: np.ndarray | None = None) -> pa.Array:
        values = center * level * np.exp(0.3 * rng.standard_normal(rows, dtype=np.float32))
        return pa.array(values.astype(np.float32), mask=None if where is None else ~where)

    return {
        "step": at,
        "tensor": _dictionary(long.names(), len(steps)),
        "grad_norm": around(0.1),
        "param_norm": around(5),
        "update_norm": around(5e-3),
        "grad_var": around(1),
        "gsnr_sum": around(50),
        "gsnr_count": np.full(rows, 1e3, np.float32),
        "hess_trace": around(3, curvature),
        "grad_square": around(1, curvature),
        "ggn_trace": around(3, curvature),
        "tic_sum": around(100, curvature),
        "tic_count": around(1e3, curvature),
        "distance": around(np.sqrt(at + 1.0) * 1e-2),
        "silent_rows": pa.array((0.05 * rng.random(rows)).astype(np.float32), mask=~matrix),
        "mean_row_norm": around(1, matrix),
    }


def _modules(rng: np.random.Generator, long: Long, probes: np.ndarray) -> Columns:
    """The units of each activation module."""
    names = long.activations()
    rows = len(probes) * len(names)
    return {
        "step": np.repeat(probes, len(names)),
        "module": _dictionary(names, len(probes)).cast(pa.string()),
        "dead_share": np.floor(6 * rng.random(rows)) / 128,
        "saturated_share": np.zeros(rows),
        "flat_share": np.zeros(rows),
        "unit_count": 128,
    }


def _histograms(rng: np.random.Generator, long: Long, probes: np.ndarray, pools: Mapping[str, pa.Array]) -> Columns:
    """Histograms of each tensor, drawn from a pool of them."""
    at = np.repeat(probes, long.tensors)
    curvature = at % (SPARSER * long.every) == 0
    drawn = {name: pa.array(rng.integers(0, len(pool), len(at))) for name, pool in pools.items()}
    joint = pa.array(drawn["joint_counts"].to_numpy(), mask=~curvature)
    return {
        "step": at,
        "tensor": _dictionary(long.names(), len(probes)).cast(pa.string()),
        "counts": pools["counts"].take(drawn["counts"]),
        "joint_counts": pools["joint_counts"].take(joint),
        "samples": BATCH,
    }


def _pools(rng: np.random.Generator) -> dict[str, pa.Array]:
    """Histograms to draw from, by the column."""
    bells = {"counts": np.linspace(-3, 3, 67), "joint_counts": np.linspace(-3, 3, 437)}
    drawn = {name: rng.poisson(100 * np.exp(-(bell**2)), (200, len(bell))) for name, bell in bells.items()}
    return {name: pa.array(list(rows), pa.list_(pa.int64())) for name, rows in drawn.items()}


def _metrics(rng: np.random.Generator, long: Long, at: np.ndarray) -> Columns:
    """A loss and an accuracy of validation data."""
    ends = np.repeat(at[(at + 1) % METRICS_EVERY == 0], 2)
    loss = (2.2 * np.exp(-6 * ends / long.steps) + 0.1) * np.exp(0.02 * rng.standard_normal(len(ends)))
    is_loss = np.arange(len(ends)) % 2 == 0
    return {
        "step": ends,
        "epoch": (ends + 1) / METRICS_EVERY,
        "split": np.full(len(ends), "valid"),
        "name": np.where(is_loss, "loss", "accuracy"),
        "value": np.where(is_loss, loss, np.exp(-loss)),
    }


def _events(long: Long, at: np.ndarray) -> Columns:
    """Wiring and inputs at the start, validation passes and incidents later."""
    found = [*_beginning(long)] if at[0] == 0 else []
    passes, jumps = at[(at + 1) % METRICS_EVERY == 0], at[np.isin(at, long.incidents())]
    found += [{"kind": "evaluation", "step": int(step), "detail": EVALUATION} for step in passes]
    found += [{"kind": "incident", "step": int(step), "detail": JUMP} for step in jumps]
    return {
        "step": [event["step"] for event in found],
        "time": [event["step"] * STEP_SECONDS for event in found],
        "kind": [event["kind"] for event in found],
        "message": ["" for _ in found],
        "detail": [json.dumps(event["detail"]) for event in found],
    }


def _beginning(long: Long) -> Iterator[dict[str, Any]]:
    yield {"kind": "start", "step": 0, "detail": {}}
    yield wiring([leaf(name) for name in long.names()])
    yield {"step": 0, **loss_input("cross_entropy", (BATCH, CLASSES))}
    yield {"kind": "coverage", "step": 0, "detail": {"share": 1.0, "uncovered": []}}


def _dictionary(names: list[str], times: int) -> pa.Array:
    indices = np.tile(np.arange(len(names), dtype=np.int32), times)
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names))


def _lists(matrix: np.ndarray, where: np.ndarray) -> pa.Array:
    """The rows as lists, null elsewhere."""
    offsets = np.concatenate([[0], np.cumsum(where * matrix.shape[1])]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix[where].ravel()), mask=pa.array(~where))


def _manifest(long: Long) -> dict[str, Any]:
    tensors = [_entry(name) for name in long.names()]
    types = {item["module"]: item["module_type"] for item in tensors} | dict.fromkeys(long.activations(), "ReLU")
    return run_file(tensors=tensors) | {
        "preset": "full",
        "schedule": {"dense_steps": DENSE_STEPS, "every": long.every},
        "modules": [{"name": name, "type": kind} for name, kind in types.items()],
        "instruments": [{"name": kind.name, "columns": [_filled(c) for c in kind.columns]} for kind in PRESETS["full"]],
        "edges": {kind.name: _in_words(kind.edges) for kind in PRESETS["full"] if kind.edges},
        "loss": {"type": "CrossEntropyLoss", "reduction": "mean"},
    }


def _filled(column: schema.Column) -> dict[str, str]:
    """A column as the run file names it under its instrument."""
    told = {"unit": column.unit, "description": column.description}
    return {"table": schema.table_of(column), "column": column.name} | told


def _in_words(edges: Any) -> Any:
    """Edges of bins for JSON, which has no word for infinity."""
    if isinstance(edges, Mapping):
        return {name: _in_words(part) for name, part in edges.items()}
    return [str(edge) if math.isinf(edge) else edge for edge in edges]


def _entry(name: str) -> dict[str, Any]:
    module = name.rpartition(".")[0]
    matrix = name.endswith(("linear.weight", "head.weight"))
    return {
        "name": name,
        "module": module,
        "module_type": "LayerNorm" if module.endswith("norm") else "Linear",
        "shape": [128, 128] if matrix else [128],
        "dtype": "float32",
        "requires_grad": True,
        "group": 0,
    }
