"""The built-in rules of SageMaker Debugger, by the conditions that its developer guide documents, at every step.

The rules themselves run only within that service. By default tensors are saved every 500 steps, which most runs of the
zoo do not have.
"""

from __future__ import annotations

import polars as pl
from zoo.rivals.base import (
    Rule,
    classes,
    contender,
    entries,
    first,
    gradient_below,
    layer_share,
    logged,
    loss,
    needed,
    nonfinite,
    ratio_beyond,
    weights,
)

from analyzer.findings import NotApplicable
from analyzer.run import Run


def poor_initialization(run: Run) -> int | None:
    """The loss has not fallen for 5 of the first 10 steps. The parts on activations and gradients need their values."""
    early = loss(run).head(10)
    best = early.with_columns(pl.col("loss").cum_min().alias("best"))
    return first(best, (pl.col("best") >= pl.col("best").shift(5)).fill_null(value=False))


def loss_not_decreasing(run: Run) -> int | None:
    """The loss is not 0.1 % lower than 10 steps before."""
    before = pl.col("loss").shift(10)
    return first(loss(run), (before - pl.col("loss")) < 0.001 * before.abs())


def unchanged(run: Run) -> int | None:
    """A tensor stays within rtol 1e-5 and atol 1e-8 at 3 probes on end."""
    frame = entries(run, "update_norm", "param_norm")
    same = (pl.col("update_norm") <= 1e-8 + 1e-5 * pl.col("param_norm")).cast(pl.Int64)
    counted = frame.with_columns(same.rolling_sum(3).over("tensor").alias("same"))
    return first(counted, pl.col("same") == 3)


def overfit(run: Run) -> int | None:
    """The validation loss is 10 % above the training loss. Counts logs, not steps."""
    valid, train = logged(run, "valid", "loss"), logged(run, "train", "loss")
    count = min(len(valid), len(train))
    found = (valid.head(count) - train.head(count)) / train.head(count) > 0.1
    return None if not found.any() else run.last_step


def overtraining(run: Run) -> int | None:
    """The training loss has not improved by 0.01 within 5 logs, or the validation loss within 10."""
    for split, patience in (("train", 5), ("valid", 10)):
        try:
            best = logged(run, split, "loss").cum_min()
        except NotApplicable:
            continue
        if (best.shift(patience) - best < 0.01).any():
            return run.last_step
    if not run.has("metrics", "value"):
        raise NotApplicable("needs what is not recorded: losses of epochs")
    return None


def class_imbalance(run: Run) -> int | None:
    """One class occurs over 10 times as often as another, after 500 labels."""
    counts = classes(run)
    return run.first_step if sum(counts) > 500 and max(counts) > 10 * min(counts) else None


def input_images(run: Run) -> int | None:
    """The mean of images is more than 0.2 away from zero."""
    if not any(item.type == "Conv2d" for item in run.manifest.modules):
        raise NotApplicable("is for images")
    return first(needed(run, "steps", "input_mean"), pl.col("input_mean").abs() > 0.2)


def too_small(run: Run) -> int | None:
    """An update is below 1e-8 of its weight."""
    return first(weights(run, "update_ratio"), pl.col("update_ratio") < 1e-8)


SAGEMAKER = contender(
    (
        Rule("VanishingGradient", ("vanishing-gradients",), gradient_below(1e-7)),
        Rule("ExplodingTensor", ("nonfinite",), nonfinite),
        Rule("PoorWeightInitialization", ("init-zero-or-symmetric", "init-too-large"), poor_initialization),
        Rule("SaturatedActivation", ("saturated-units",), layer_share("saturated_share", 0.5)),
        Rule("DeadRelu", ("dead-units",), layer_share("dead_share", 0.5)),
        Rule("WeightUpdateRatio: large", ("rate-too-large", "update-outlier"), ratio_beyond(10)),
        Rule("WeightUpdateRatio: small", ("rate-too-small", "rate-decayed", "wiring"), too_small),
        Rule("UnchangedTensor", ("wiring", "rate-too-small"), unchanged),
        Rule("LossNotDecreasing", ("stalled", "diverged", "at-chance", "does-not-fit-one-batch"), loss_not_decreasing),
        Rule("Overfit", ("overfitting",), overfit),
        Rule("Overtraining", ("overfitting", "early-stopping"), overtraining),
        Rule("ClassImbalance", ("class-imbalance",), class_imbalance),
        Rule("CheckInputImages", ("unnormalised-inputs",), input_images),
    ),
    missing={
        "AllZero": "a tensor that the user names",
        "TensorVariance": "bounds that the user sets",
        "NLPSequenceRatio": "the tokens",
        "SimilarAcrossRuns": "a second run",
        "Confusion": "the predictions of each sample",
    },
)
