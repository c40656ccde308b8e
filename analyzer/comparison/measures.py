"""What can be laid over one another: a value per step of each run, by the instruments that tell how it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ..charts.alpha import SHOWN
from ..validation import falls

if TYPE_CHECKING:
    from ..run import Run

Series = pl.DataFrame
"""Columns `step` and `value` (float64), without nulls, sorted by step."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity over the steps. `ratios`: its differences count as factors, so it is compared by its logarithm.

    `key`: whether its curve is drawn. `series` reads it off a run; an empty frame where it was not recorded.
    """

    name: str
    ratios: bool
    series: Callable[[Run], Series]
    key: bool = False
    reading: str = ""


def measures(runs: Sequence[Run]) -> tuple[Measure, ...]:
    """The measures in the order in which a cause passes through a training: inputs first, metrics last."""
    return (*FIXED, *_metrics(runs))


def _steps(column: str) -> Callable[[Run], Series]:
    return lambda run: _clean(run.frame("steps", column).lazy().select("step", value=pl.col(column)))


def _alpha(run: Run) -> Series:
    """Its tails are heavy: a value beyond what the chart shows counts as one at its edge."""
    return _clean(run.frame("steps", "alpha").lazy().select("step", value=pl.col("alpha").clip(*SHOWN)))


def _median_of_tensors(column: str) -> Callable[[Run], Series]:
    """The middle one of the tensors at each step."""

    def series(run: Run) -> Series:
        value = pl.col(column).cast(pl.Float64)
        usable = run.table("layers").select("step", value=value).filter(pl.col("value") > 0)
        return _clean(usable.group_by("step").agg(pl.col("value").median()))

    return series


def _whole(column: str) -> Callable[[Run], Series]:
    """The norm over all tensors at each step, of the norms of each."""

    def series(run: Run) -> Series:
        squares = run.table("layers").select("step", value=pl.col(column).cast(pl.Float64) ** 2).drop_nulls("value")
        return _clean(squares.group_by("step").agg(pl.col("value").sum().sqrt()))

    return series


def _units(column: str) -> Callable[[Run], Series]:
    """The share over all units at each step."""

    def series(run: Run) -> Series:
        known = run.table("modules").select("step", column, count="unit_count").drop_nulls()
        share = (pl.col(column) * pl.col("count")).sum() / pl.col("count").sum()
        return _clean(known.group_by("step").agg(share.alias("value")))

    return series


def _logged(split: str, name: str) -> Callable[[Run], Series]:
    def series(run: Run) -> Series:
        rows = run.frame("metrics", "value").lazy()
        return _clean(rows.filter((pl.col("split") == split) & (pl.col("name") == name)).select("step", "value"))

    return series


def _clean(frame: pl.LazyFrame) -> Series:
    return (
        frame.select("step", pl.col("value").cast(pl.Float64))
        .drop_nulls()
        .unique("step", keep="last", maintain_order=True)
        .sort("step")
        .collect()
    )


_NOISE = "The batch's noise makes it jitter; the trend counts."

FIXED: tuple[Measure, ...] = (
    Measure("mean of the inputs", False, _steps("input_mean")),
    Measure("spread of the inputs", True, _steps("input_std")),
    Measure("learning rate", True, _steps("lr_max"), True, "What the schedule did."),
    Measure("largest prediction", False, _steps("prediction_max")),
    Measure("loss", True, _steps("loss"), True, f"Of each step's batch, before its update. {_NOISE}"),
    Measure("gradient norm", True, _steps("grad_norm"), True, "Of all tensors, after the backward pass."),
    Measure("noise of the gradient", True, _steps("norm_test")),
    Measure("signal-to-noise ratio of the gradient", True, _steps("mean_gsnr")),
    Measure("gradient noise scale", True, _steps("noise_scale")),
    Measure("update norm", True, _steps("update_norm")),
    Measure(
        "update ratio",
        True,
        _median_of_tensors("update_ratio"),
        True,
        "Norm of the update relative to that of the tensor: the middle one of all tensors.",
    ),
    Measure(
        "alpha",
        False,
        _alpha,
        True,
        "Where each update ended on the parabola fitted along it: 0 is the minimum, \u22121 no step, 1 the far side.",
    ),
    Measure("distance from the start", True, _whole("distance")),
    Measure("norm of the parameters", True, _whole("param_norm")),
    Measure("share of dead units", False, _units("dead_share")),
    Measure("share of saturated units", False, _units("saturated_share")),
    Measure("trace of the Hessian", True, _steps("hess_trace")),
    Measure("largest eigenvalue of the Hessian", True, _steps("hess_max_ev")),
)
"""All but the metrics, which depend on what was logged."""

SET = "learning rate"
"""The measure that is set, not measured: it can be a cause of others, but no sign."""

MOST_METRICS = 12


def _metrics(runs: Sequence[Run]) -> tuple[Measure, ...]:
    """The metrics that at least two runs logged, or the only one."""
    seen: dict[tuple[str, str], int] = {}
    for run in runs:
        rows = run.frame("metrics", "value").drop_nulls().select("split", "name").unique(maintain_order=True)
        for pair in rows.iter_rows():
            seen[pair] = seen.get(pair, 0) + 1
    shared = [pair for pair, amount in seen.items() if amount >= min(2, len(runs))]
    return tuple(
        Measure(f"{split} {name}", falls(name) is True, _logged(split, name), True, "As the training script logged it.")
        for split, name in shared[:MOST_METRICS]
    )
