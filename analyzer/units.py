"""Units that are stuck, by layer and probe: as activation modules showed them, or as rows of weights betray them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import polars as pl

from .noise import scalar
from .run import Run

REST = 16
"""Samples in a batch below which a unit that passes nothing on may only be resting."""

BEGINNING = 5
"""Probes that count as the start."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """How many units of a layer are stuck, as a share: at the `start` (the least of five probes) and `late`.

    `late` is the lowest decile over the last quarter of the probes: what is dead does not come back. `since`: the first
    step from which on at least half as many as late were stuck. `layer`: an activation module, or a weight tensor.
    """

    layer: str
    start: float
    late: float
    since: int
    probes: int
    by: Literal["units", "rows"]


def dead_units(run: Run) -> list[Stuck]:
    """Layers with units that pass nothing on, in the order of the run file; empty if nothing tells.

    By activation modules where their units were recorded, else by rows of weights that get no gradient at all.
    """
    if run.has("modules", "dead_share"):
        return _of_modules(run, "dead_share")
    return _stuck(_silent_rows(run), {tensor.name: place for place, tensor in enumerate(run.tensors)}, "rows")


def saturated_units(run: Run) -> list[Stuck]:
    """Layers with units at the flat end of their range for every sample, in the order of the run file."""
    return _of_modules(run, "saturated_share")


def flat_values(run: Run) -> list[Stuck]:
    """Layers by the share of their values, over units and samples, that are at a flat end."""
    return _of_modules(run, "flat_share")


def forward_order(run: Run, names: Iterable[str]) -> list[str]:
    """Modules and functions in forward order: a function follows the layer it is named after, unknown ones are last."""
    places = {module.name: place for place, module in enumerate(run.manifest.modules)}

    def place(name: str) -> tuple[int, str]:
        known = places.get(name, places.get(name.partition(" (")[0], len(places)))
        return known, "" if name in places else name

    return sorted(names, key=place)


def batch_size(run: Run) -> float:
    """Median of the samples in a step; NaN if unknown."""
    return scalar(run.frame("steps", "batch_size")["batch_size"].median())


def _of_modules(run: Run, column: str) -> list[Stuck]:
    frame = run.frame("modules", column).drop_nulls(["module", column]).rename({"module": "layer", column: "share"})
    names = forward_order(run, frame["layer"].unique().to_list())
    return _stuck(frame, {name: place for place, name in enumerate(names)}, "units")


def _silent_rows(run: Run) -> pl.DataFrame:
    """Share of the rows without a gradient; those of a layer whose input is zero, as its bias tells, are not meant."""
    biases = {tensor.module: tensor.name for tensor in run.tensors if len(tensor.shape) == 1}
    chosen = [
        tensor
        for tensor in run.tensors
        if len(tensor.shape) > 1 and tensor.requires_grad and "Embedding" not in tensor.module_type
    ]
    names = [tensor.name for tensor in chosen[:-1]]  # what follows the last layer is the loss
    rows = run.frame("layers", "silent_rows", "grad_norm")
    partner = pl.DataFrame(
        {"tensor": names, "bias": [biases.get(tensor.module) for tensor in chosen[:-1]]},
        schema={"tensor": pl.String, "bias": pl.String},
    )
    bias = rows.select("step", pl.col("tensor").alias("bias"), pl.col("grad_norm").alias("bias_norm"))
    joined = (
        rows.drop_nulls("silent_rows")
        .join(partner, on="tensor", maintain_order="left")
        .join(bias, on=["step", "bias"], how="left", maintain_order="left")
    )
    no_input = (pl.col("silent_rows") == 1) & (pl.col("bias_norm") > 0)
    share = pl.when(no_input.fill_null(value=False)).then(0.0).otherwise(pl.col("silent_rows"))
    return joined.select("step", pl.col("tensor").alias("layer"), share.alias("share"))


def _stuck(frame: pl.DataFrame, order: dict[str, int], by: Literal["units", "rows"]) -> list[Stuck]:
    found = []
    for (layer,), rows in frame.sort("step").group_by("layer", maintain_order=True):
        late = scalar(rows["share"].tail(max(3, rows.height // 4)).quantile(0.1, "lower"))
        below = rows.filter(pl.col("share") < late / 2)["step"]
        after = rows["step"] if below.is_empty() else rows["step"].filter(rows["step"] > below[-1])
        since = int(rows["step"][-1]) if after.is_empty() else int(after[0])
        start = scalar(rows["share"].head(BEGINNING).min())
        found.append(Stuck(str(layer), start, late, since, rows.height, by))
    return sorted(found, key=lambda item: order.get(item.layer, len(order)))
