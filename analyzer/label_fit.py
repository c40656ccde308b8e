"""What rules on labels ask beside the loss: training accuracy, labels drawn anew, and whether all else is sound."""

from __future__ import annotations

import polars as pl

from .classes import class_table, classes_of
from .depth import gradient_profile, update_ratios
from .loss_inputs import normalised_elsewhere, ranges
from .noise import scalar
from .own_terms import own_terms
from .progress import given_probabilities
from .run import Run


def training_accuracy(run: Run) -> float | None:
    """Share of the training samples that were predicted as labelled, over the last tenth of the steps."""
    counts, hits = class_table(run), class_table(run, "class_hits", positive=False)
    late = counts.filter(pl.col("step") >= (run.last_step or 0) - run.step_count // 10)
    ends = hits.join(late.select("step"), on="step", how="semi")
    total = scalar(late["size"].sum())
    if ends.is_empty():
        return None
    return scalar(ends.select(pl.sum_horizontal(classes_of(ends))).to_series().sum()) / total if total >= 50 else None


def all_recognised(run: Run) -> bool:
    """Whether every sample was predicted as labelled at the last three probes that counted them."""
    frame = run.frame("steps", "class_counts", "class_hits").drop_nulls().tail(3)
    sums = frame.select(pl.col("class_counts", "class_hits").list.sum())
    return sums.height == 3 and bool((sums["class_counts"] == sums["class_hits"]).all()) and sums["class_hits"][0] > 0


def redrawn(run: Run, probes: int = 20) -> bool:
    """Whether one batch of inputs is repeated, to the last digit, while the labels change in most of the probes."""
    inputs = ("input_mean", "input_std", "input_absmax")
    if not (run.has("steps", "class_counts") and all(run.has("steps", name) for name in inputs)):
        return False
    frame = run.frame("steps", *inputs, "input_spread", "class_counts").drop_nulls([*inputs, "class_counts"])
    frame = frame.head(10 * probes)
    same = all(frame[name].n_unique() == 1 for name in (*inputs, "input_spread"))
    if frame.height < probes or not same or not frame["input_std"][0] > 0:
        return False
    mean, std = float(frame["input_mean"][0]), float(frame["input_std"][0])
    if abs(mean**2 + std**2 - mean) < 1e-6 and frame["input_absmax"][0] == 1:
        return False  # zeros and ones, as one-hot vectors are: any batch of them looks like that
    changed = pl.col("class_counts").cast(pl.List(pl.String)).list.join(",")
    return scalar(frame.select((changed != changed.shift()).mean()).item()) > 0.5


def has_batch_norm(run: Run) -> bool:
    """Whether the model normalises over batches, and so is another one in evaluation."""
    return any("BatchNorm" in module.type for module in run.manifest.modules)


def sound(run: Run) -> bool:
    """Whether nothing else explains why a model learns nothing: what goes in, what comes out, gradients, the pace."""
    terms = own_terms(run)
    if terms is not None and terms.share > 0.05:
        return False
    inputs = run.frame("steps", "input_mean", "input_std", "input_absmax").drop_nulls()
    if inputs.height:
        size = scalar((inputs["input_mean"] ** 2 + inputs["input_std"] ** 2).sqrt().median())
        if not (0.05 < size < 10 and scalar(inputs["input_std"].median()) > 0.01):
            return False
    outputs = ranges(run)
    if given_probabilities(run) or normalised_elsewhere(run, outputs) is not None:
        return False
    profile, ratios = gradient_profile(run), update_ratios(run)
    if profile.height and scalar(profile["decades"].median()) < -1.5:
        return False
    middle, least = scalar(ratios["median"].median()), scalar(ratios["smallest"].median())
    return 1e-3 < middle < 0.01 and least > 0.1 * middle
