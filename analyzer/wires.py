"""Which leaf tensors the loss reaches, the model registers and an optimizer holds, as the recorder saw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

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


def unchanged(run: Run, share: float) -> tuple[str, ...]:
    """Tensors whose update is exactly zero at nearly every probe, though gradient and rate are not, and others move."""
    groups = [tensor for tensor in run.tensors if tensor.group is not None and tensor.requires_grad]
    table = pl.DataFrame(
        {"tensor": [tensor.name for tensor in groups], "group": [tensor.group for tensor in groups]},
        schema={"tensor": pl.String, "group": pl.Int64},
    )
    steps = run.frame("steps", "lr", "skipped").filter(~pl.col("skipped").fill_null(value=False))
    rows = (
        run.frame("layers", "grad_norm", "param_norm", "update_norm")
        .drop_nulls()
        .join(table, on="tensor")
        .join(steps, on="step")
        .with_columns(pl.col("lr").list.get(pl.col("group"), null_on_oob=True).alias("rate"))
        # What would be lost in rounding anyway is the business of the rule on small learning rates.
        .filter(pl.col("rate") * pl.col("grad_norm") > 1e-6 * pl.col("param_norm"))
    )
    still = rows.group_by("tensor").agg((pl.col("update_norm") == 0).mean().alias("still"), pl.len())
    moving = run.frame("layers", "update_norm").filter(pl.col("update_norm") > 0)
    if moving.is_empty():
        return ()
    found = set(still.filter((pl.col("still") >= share) & (pl.col("len") >= 10))["tensor"])
    return tuple(tensor.name for tensor in groups if tensor.name in found)
