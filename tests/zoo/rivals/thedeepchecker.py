"""TheDeepChecker's checks with the constants of its settings: from step 10, at every 10th, some only 5 times on end."""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl
from zoo.rivals.base import Rule, classes, contender, entries, first, loss, needed, nonfinite
from zoo.rivals.base import weights as relative

from analyzer.findings import NotApplicable
from analyzer.run import Run

PATIENCE = 5


def _checked(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("step") >= 10)


def _persistent(frame: pl.DataFrame, condition: pl.Expr) -> int | None:
    """The first step at which the condition held at so many probes of a tensor on end."""
    held = _checked(frame).with_columns(condition.cast(pl.Int64).rolling_sum(PATIENCE).over("tensor").alias("held"))
    return first(held, pl.col("held") == PATIENCE)


def weights(condition: pl.Expr, *columns: str) -> Callable[[Run], int | None]:
    """A condition on the root mean square of the entries of a tensor."""
    return lambda run: _persistent(entries(run, *columns), condition)


def updates(condition: pl.Expr) -> Callable[[Run], int | None]:
    """A condition on the relative updates."""
    return lambda run: _persistent(relative(run, "update_ratio"), condition)


def units(column: str) -> Callable[[Run], int | None]:
    """More than half of the units of a layer."""
    return lambda run: first(_checked(needed(run, "modules", column)), pl.col(column) > 0.5)


def stagnated(run: Run) -> int | None:
    """The loss falls by less than 5 % within 5 checks, which are 50 steps."""
    before = pl.col("loss").shift(50)
    return first(_checked(loss(run)), (before - pl.col("loss")) < 0.05 * before.abs())


def diverged(run: Run) -> int | None:
    """The loss is twice its minimum."""
    return first(_checked(loss(run)), pl.col("loss").abs() >= 2 * pl.col("loss").cum_min().abs())


def fluctuating(run: Run) -> int | None:
    """The loss turns at more than half of 50 steps."""
    change = pl.col("loss").diff()
    turns = ((change.sign() * change.shift(1).sign()) < 0).cast(pl.Int64).rolling_sum(50)
    return first(loss(run).with_columns(turns.alias("turns")), pl.col("turns") > 25)


def features(run: Run) -> int | None:
    """The input has neither mean 0 and deviation 1, nor is it between -1 and 1."""
    frame = needed(run, "steps", "input_mean", "input_std", "input_absmax").drop_nulls().head(1)
    standard = (pl.col("input_mean").abs() < 0.1) & ((pl.col("input_std") - 1).abs() < 0.1)
    return first(frame, ~standard & (pl.col("input_absmax") > 1))


def targets(run: Run) -> int | None:
    """The target of a regression is not between -1 and 1."""
    if run.has("steps", "class_counts"):
        raise NotApplicable("is for regression")
    frame = needed(run, "steps", "target_min", "target_max").drop_nulls().head(1)
    return first(frame, (pl.col("target_max") > 1) | (pl.col("target_min") < -1))


def first_loss(run: Run) -> int | None:
    """The first loss is over twice that of a model that knows nothing."""
    expected = math.log(len(classes(run)))
    start = loss(run).head(1)
    return first(start, (pl.col("loss") - expected).abs() > expected)


def unbalanced(run: Run) -> int | None:
    """The perplexity of the labels is below half of the number of classes."""
    counts = classes(run)
    shares = [count / sum(counts) for count in counts if count]
    perplexity = math.exp(-sum(share * math.log(share) for share in shares))
    return run.first_step if perplexity < 0.5 * len(counts) else None


RATIO = pl.col("update_ratio")
THEDEEPCHECKER = contender(
    (
        Rule("numerical", ("nonfinite",), nonfinite),
        Rule("act_dead", ("dead-units",), units("dead_share")),
        Rule("act_sat", ("saturated-units",), units("saturated_share")),
        Rule("w_div", ("diverged", "rate-too-large"), weights(pl.col("param_norm") > 1e8, "param_norm")),
        Rule("gw_van", ("vanishing-gradients",), weights(pl.col("grad_norm") < 1e-6, "grad_norm")),
        Rule("gw_exp", ("exploding-gradients", "init-too-large"), weights(pl.col("grad_norm") > 1e6, "grad_norm")),
        Rule("w_fast", ("rate-too-large", "update-outlier"), updates(RATIO > 0.1)),
        Rule("w_slow", ("rate-too-small", "rate-decayed"), updates((RATIO < 1e-4) & (RATIO > 0))),
        Rule("w_untrained", ("wiring",), updates(RATIO == 0)),
        Rule("stagnated_loss", ("stalled", "at-chance", "does-not-fit-one-batch"), stagnated),
        Rule("div_loss", ("diverged",), diverged),
        Rule("fluctuated_loss", ("oscillating", "batch-too-small"), fluctuating),
        Rule("features_unnormalized", ("unnormalised-inputs",), features),
        Rule("targets_unnormalized", ("unnormalised-targets",), targets),
        Rule("poor_init_loss", ("init-too-large", "unnormalised-inputs"), first_loss),
        Rule("unbalanced_labels", ("class-imbalance",), unbalanced),
    ),
    missing={
        "need_he, need_glorot, need_lecun": "the entries of the weights",
        "act_unstable": "the values of the activations",
        "w_dead, w_neg": "the entries of the weights",
        "growth of the regulariser": "the terms of the loss",
        "gradient check, overfit one batch, corrupted labels": "further passes and trainings",
    },
)
