"""Which leaf tensors the loss reaches, the model registers and an optimizer holds, as the recorder saw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from .memo import per_run
from .run import Run


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf tensor: what knows it at the end of the run, and whether the loss reached it at any step."""

    name: str
    registered: bool
    reached: bool
    held: bool
    requires_grad: bool
    parameter: bool
    numel: int


@per_run
def leaves_of(run: Run) -> list[Leaf]:
    """The leaf tensors of the last event, in forward order, reached if any event or any gradient says so."""
    events = [rows for event in run.events_of("wiring") if isinstance(rows := event.detail.get("tensors"), list)]
    if not events:
        return []
    reached = {str(row.get("name")) for rows in events for row in _rows(rows) if row.get("reached")}
    reached |= set(run.frame("layers", "grad_norm").filter(pl.col("grad_norm") > 0)["tensor"].unique())
    order = {tensor.name: position for position, tensor in enumerate(run.tensors)}
    leaves = [_leaf(row, reached) for row in _rows(events[-1])]
    return sorted(leaves, key=lambda leaf: order.get(leaf.name, len(order)))


def _rows(rows: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    return (row for row in rows if isinstance(row, dict))


def _leaf(row: Mapping[str, Any], reached: set[str]) -> Leaf:
    numel = row.get("numel")
    return Leaf(
        name=str(row.get("name")),
        registered=bool(row.get("registered")),
        reached=str(row.get("name")) in reached,
        held=bool(row.get("held")),
        requires_grad=bool(row.get("requires_grad")),
        parameter=bool(row.get("parameter")),
        numel=numel if isinstance(numel, int) else 0,
    )


@dataclass(frozen=True, slots=True)
class Unmoved:
    """A tensor that its optimizer leaves exactly as it is. `rounded`: what it would add is lost in rounding."""

    name: str
    still: float
    probes: int
    rounded: bool


def unmoved(run: Run, share: float) -> list[Unmoved]:
    """Tensors whose update is exactly zero at nearly every probe, though gradient and rate are not, and others move.

    Of several optimizers only the steps that were theirs count. Where a step of plain descent would be lost in the
    rounding of the tensor's type, that is the reason; in single precision it is left to the rule on small rates.
    """
    groups = [tensor for tensor in run.tensors if tensor.group is not None and tensor.requires_grad]
    theirs = dict(enumerate(group.optimizer for group in run.groups))
    table = pl.DataFrame(
        {
            "tensor": [tensor.name for tensor in groups],
            "group": [tensor.group for tensor in groups],
            "theirs": [theirs.get(tensor.group or 0) for tensor in groups],
            "precision": [_PRECISION.get(tensor.dtype, SINGLE) for tensor in groups],
        },
        schema={"tensor": pl.String, "group": pl.Int64, "theirs": pl.Int64, "precision": pl.Float64},
    )
    steps = run.frame("steps", "lr", "skipped", "optimizer").filter(~pl.col("skipped").fill_null(value=False))
    turn = pl.col("optimizer").is_null() | pl.col("theirs").is_null() | (pl.col("optimizer") == pl.col("theirs"))
    alone = len({group.optimizer for group in run.groups}) <= 1
    layers = run.frame("layers", "grad_norm", "param_norm", "update_norm")
    if not (layers["update_norm"] > 0).any():
        return []
    ever_still = layers.filter(pl.col("update_norm") == 0)["tensor"].unique()  # of the others there is nothing to tell
    rows = (
        layers.filter(pl.col("tensor").is_in(ever_still.to_list()))
        .drop_nulls()
        .join(table, on="tensor")
        .join(steps, on="step")
        .filter(turn | pl.lit(alone))
        .with_columns((pl.col("lr").list.get(pl.col("group"), null_on_oob=True) * pl.col("grad_norm")).alias("stride"))
        .with_columns((pl.col("stride") <= pl.col("precision") * pl.col("param_norm")).alias("rounded"))
        .filter((pl.col("stride") > 0) & ~(pl.col("rounded") & (pl.col("precision") <= SINGLE)))
    )
    judged = rows.group_by("tensor").agg(
        (pl.col("update_norm") == 0).mean().alias("still"), pl.col("rounded").mean().alias("rounded"), pl.len()
    )
    found = judged.filter((pl.col("still") >= share) & (pl.col("len") >= 10))
    order = {tensor.name: place for place, tensor in enumerate(groups)}
    rows_of = sorted(found.iter_rows(), key=lambda row: order[row[0]])
    return [Unmoved(name, still, probes, rounded >= 0.5) for name, still, rounded, probes in rows_of]


SINGLE = 1e-6
"""Relative change that single precision loses for sure: some tens of its rounding unit."""

_PRECISION = {"float16": 5e-4, "bfloat16": 4e-3}
"""The same of half precision: half a unit in the last place."""
