"""How regularisation shows: weights that shrink, the share of the decay in a step, training beside validation loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from .depth import of_weights
from .noise import Mean, batch_mean, scalar
from .progress import losses, weighted
from .run import Run
from .validation import metrics


def shrinkage(run: Run) -> float:
    """The last norm over the first, the median over the weight tensors; NaN if unknown."""
    norms = of_weights(run, "param_norm").filter(pl.col("param_norm").is_finite())
    ends = norms.group_by("tensor").agg(
        pl.col("param_norm").first().alias("first"), pl.col("param_norm").last().alias("last")
    )
    return scalar(ends.filter(pl.col("first") > 0).select((pl.col("last") / pl.col("first")).median()).to_series()[0])


def decay_share(run: Run) -> float:
    """Share of the weight decay in the first ten probed steps, the median over the weight tensors; 0 without any.

    Where the decay enters the gradient: decay * weight over gradient + decay * weight. Where it is decoupled, as in
    AdamW: rate * decay * weight over the update.
    """
    groups = {
        tensor.name: run.groups[tensor.group]
        for tensor in run.tensors
        if tensor.group is not None and tensor.group < len(run.groups)
    }
    rows = pl.DataFrame(
        [
            {"tensor": name, "decay": decay_of(group.options), "decoupled": _decoupled(group.type, group.options)}
            for name, group in groups.items()
        ],
        {"tensor": pl.String, "decay": pl.Float64, "decoupled": pl.Boolean},
    )
    if rows.is_empty() or not scalar(rows["decay"].max()) > 0:
        return 0.0
    frame = of_weights(run, "param_norm", "grad_norm", "update_norm").join(rows, on="tensor")
    early = frame.filter(pl.col("step").rank("dense") <= _FIRST).join(run.frame("steps", "lr_max"), on="step")
    pull = pl.col("decay") * pl.col("param_norm")
    share = (
        pl.when("decoupled")
        .then(pl.col("lr_max") * pull / pl.col("update_norm"))
        .otherwise(pull / (pull + pl.col("grad_norm")))
    )
    shares = early.select(share.alias("share")).to_series().drop_nulls().drop_nans()
    return scalar(shares.median()) if len(shares) else 0.0


_FIRST = 10
"""Probed steps at the start: later on gradient and decay balance in healthy trainings, too."""


def decay_of(options: Mapping[str, Any]) -> float:
    """The weight decay in the options of an optimizer's group; 0 if there is none."""
    value = options.get("weight_decay")
    return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0


def _decoupled(kind: str, options: Mapping[str, Any]) -> bool:
    told = options.get("decoupled_weight_decay")
    return bool(told) or kind.lower().endswith("w") or kind.lower() in ("lion", "adafactor", "muon")


def over_validation(run: Run) -> float:
    """The last training loss over the last validation loss, if significantly above it; 1 if not, or if not logged."""
    logged = next((metric for metric in metrics(run) if metric.is_loss), None)
    smoothed = any(event.detail.get("label_smoothing") for event in run.events_of("loss-input"))
    if logged is None or logged.values.height < 4 or weighted(run) or smoothed:  # which give the two other units
        return 1.0
    series = losses(run)["loss"]
    train = batch_mean(series.tail(max(20, series.len() // 5)))
    last = logged.values["value"].tail(max(4, logged.values.height // 5))
    held_out = Mean(scalar(last.mean()), scalar(last.std()) / math.sqrt(last.len()))
    apart = train.exceeds(held_out, 3.0)
    return train.value / held_out.value if apart and held_out.value > 0 else 1.0


def flat_validation(run: Run) -> float | None:
    """The level at which the validation loss stayed from its first value to its last; None if it did not."""
    logged = next((metric for metric in metrics(run) if metric.is_loss), None)
    if logged is None or logged.values.height < 4:
        return None
    low, high = scalar(logged.values["value"].min()), scalar(logged.values["value"].max())
    return low if low > 0 and high < 1.02 * low else None


def broadcast_elements(run: Run) -> bool:
    """Whether a loss between elements was given shapes that differ: then predictions shrink to the mean by that."""
    detail = next((event.detail for event in run.events_of("loss-input")), {})
    prediction, target = detail.get("prediction_shape"), detail.get("target_shape")
    elementwise = "mse" in str(detail.get("loss")).lower() or "l1" in str(detail.get("loss")).lower()
    return elementwise and prediction != target
