"""AUTOTRAINER's rules with the constants of its monitor, in its order of precedence, at probes instead of epochs.

It goes by the accuracy on validation data, or else on training data: without one it tells explosions only.
"""

from __future__ import annotations

import polars as pl
from zoo.rivals.base import Rule, contender, entries, first, logged, loss, needed

from analyzer.findings import NotApplicable
from analyzer.run import Run


def exploded(run: Run) -> int | None:
    """The loss is no number, or above 1000."""
    return first(loss(run), ~pl.col("loss").is_finite() | (pl.col("loss") > 1e3))


def accuracy(run: Run) -> pl.Series:
    """The accuracies that were logged. Its rules look from 30 % of a training on, at all that went before."""
    for split in ("valid", "train", "test"):
        try:
            return logged(run, split, "accuracy", "acc")
        except NotApplicable:
            continue
    raise NotApplicable("needs what is not recorded: an accuracy")


def unconverged(run: Run) -> bool:
    """The accuracy stays below 0.6, or gains less than 0.01."""
    values = accuracy(run)
    return float(values.max() or 0) < 0.6 or slow(run) is not None  # type: ignore[arg-type]


def slow(run: Run) -> int | None:
    """The accuracy never gains 0.01 from one log to the next."""
    gains = accuracy(run).diff().drop_nulls()
    return run.last_step if len(gains) and bool((gains < 0.01).all()) else None


def unstable(run: Run) -> int | None:
    """The accuracy swings by 0.03 or more at a fifth of the logs."""
    values = accuracy(run)
    drops = (values.diff().drop_nulls() <= -0.03).sum()
    return run.last_step if drops >= max(1, 0.2 * len(values)) else None


def never(run: Run) -> int | None:
    """The accuracy stays below 0.6."""
    return run.last_step if float(accuracy(run).max() or 0) < 0.6 else None  # type: ignore[arg-type]


def dying(run: Run) -> int | None:
    """At least 70 % of the rows of the weights have a gradient of zero."""
    if not unconverged(run):
        return None
    frame = needed(run, "layers", "silent_rows")
    return first(
        frame.group_by("step", maintain_order=True).agg(pl.col("silent_rows").mean()), pl.col("silent_rows") >= 0.7
    )


def _by_depth(run: Run) -> pl.DataFrame:
    frame = entries(run, "grad_norm").filter(pl.col("dimensions") > 1)
    return frame.group_by("step", maintain_order=True).agg(
        pl.col("grad_norm").first().alias("first"), pl.col("grad_norm").last().alias("last")
    )


def vanishing(run: Run) -> int | None:
    """The gradient of the first layer is below 1e-3 of that of the last, and below 1e-4."""
    if not unconverged(run):
        return None
    return first(_by_depth(run), (pl.col("first") < 1e-3 * pl.col("last")) & (pl.col("first") < 1e-4))


def exploding(run: Run) -> int | None:
    """The gradient of the first layer is above 70 times that of the last."""
    return first(_by_depth(run), pl.col("first") > 70 * pl.col("last")) if unconverged(run) else None


AUTOTRAINER = contender(
    (
        Rule("explode", ("nonfinite", "exploding-gradients", "diverged"), exploded),
        Rule("dying relu", ("dead-units",), dying),
        Rule("exploding gradient", ("exploding-gradients", "init-too-large"), exploding),
        Rule("vanishing gradient", ("vanishing-gradients",), vanishing),
        Rule("oscillating loss", ("oscillating", "rate-too-large"), unstable),
        Rule("slow convergence", ("rate-too-small", "stalled", "does-not-fit-one-batch"), slow),
        Rule("not converged", ("stalled", "at-chance", "does-not-fit-one-batch"), never),
    ),
    missing={
        "abnormal data": "the activations",
        "improper activation": "the outputs of each sample",
        "improper loss": "the width of the output",
    },
    ranked=True,
)
