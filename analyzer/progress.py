"""How far a training got: its losses, the loss of a model that knows nothing, and the share of it that was learned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from .memo import per_run
from .noise import Mean, batch_mean, block_length, blocks, scalar
from .own_terms import without_floor
from .run import Run

SANE_SPAN = 5.0
"""Spread of the logits of a batch (largest less smallest) that a sound initialisation stays below: they say little."""

CONSTANT_SHARE = 0.05
"""Spread of the predictions relative to that of the targets below which a regression predicts nothing but the mean."""

NARROW_SHARE = 0.25
"""The same, where the loss has not fallen either: the spread that the outputs of an untrained network have."""


@dataclass(frozen=True, slots=True)
class ZeroInformation:
    """The mean loss of a model that knows nothing of its input.

    `uniform`: all classes equally probable, as after a good initialisation. `prior`: the frequencies of the classes,
    the best that a constant prediction can do. Both in the unit of the recorded loss, whose mean over samples they are
    where `scale` is 1; `name` says what they are, for people.
    """

    uniform: float
    prior: float
    scale: float
    name: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the loss began and ended. `learned`: share of the reference that is gone at the end, negative if it rose.

    `reference` is the loss of a model that knows nothing where that is known, else the loss at the start.
    """

    start: float
    end: Mean
    reference: float
    zero: ZeroInformation | None
    learned: float


def adversarial(run: Run) -> bool:
    """Whether several optimizers take turns, so that each step's loss is another one and none has to fall."""
    return run.has("steps", "optimizer") and run.frame("steps", "optimizer")["optimizer"].drop_nulls().n_unique() > 1


@per_run
def losses(run: Run) -> pl.DataFrame:
    """Step and loss of the steps with a finite loss; of contrastive losses without batches of another size."""
    found = run.frame("steps", "loss", "batch_size").filter(pl.col("loss").is_finite())
    samples = contrastive_batch(run)
    if samples is not None:
        found = found.filter((pl.col("batch_size") == samples).fill_null(value=True))  # unknown between the probes
    return found.select("step", "loss")


@per_run
def contrastive_batch(run: Run) -> int | None:
    """The usual batch size, where the loss is contrastive, with all other samples of the batch as negatives; else None.

    With the batch the number of classes changes, and so does what a model that knows nothing loses: a batch of another
    size has another loss. Such a run shows as many classes as samples, and of batches of another size no such classes.
    """
    detail = _first_call(run)
    shape = detail.get("prediction_shape")
    if not isinstance(shape, list) or len(shape) != 2 or shape[0] != shape[1] or loss_name(run) not in _CATEGORICAL:
        return None
    frame = run.frame("steps", "batch_size", "class_counts", "prediction_min").drop_nulls("batch_size")
    others = frame.filter((pl.col("batch_size") != shape[0]) & pl.col("prediction_min").is_not_null())
    if others.is_empty() or others["class_counts"].is_not_null().any():
        return None
    sizes = frame.group_by("batch_size").len().sort("len", "batch_size", descending=True)
    return int(sizes["batch_size"][0])


@per_run
def measured(run: Run) -> Progress | None:
    """How far the training got; None if too few losses are known, or if one, or a term of it, was negative."""
    series = losses(run)
    if series.height < 2 or scalar(series["loss"].min()) < 0 or without_floor(run):
        return None
    length = min(block_length(series.height), max(1, series.height // 2))
    means = blocks(series, "loss", length)
    end = batch_mean(series["loss"].tail(max(length, series.height // 10)))
    start = max(scalar(means["mean"][0]), scalar(series["loss"].head(3).median()))
    zero = zero_information(run)
    reference = zero.prior if zero else start
    learned = 1 - end.value / reference if reference > 0 else 0.0
    return Progress(start=start, end=end, reference=reference, zero=zero, learned=learned)


def uninformed(run: Run, progress: Progress, margin: float = 0.1) -> bool | None:
    """Whether the model knew no more at the end than one that never saw its input; None if that cannot be told.

    By the loss where its zero-information value is known, up to a share of `margin`; for a regression by predictions
    that are nearly the same for all samples.
    """
    if progress.zero:
        return progress.learned < margin
    spread = prediction_spread(run)
    if spread is None:
        return None
    return spread < CONSTANT_SHARE or (spread < NARROW_SHARE and progress.learned < margin)


def prediction_spread(run: Run, *, first: bool = False) -> float | None:
    """Spread of a batch's predictions relative to that of all targets, for a regression; None if not recorded.

    The median over the last quarter of the probes, or the first probe alone.
    """
    names = ("prediction_min", "prediction_max", "target_min", "target_max")
    frame = run.frame("steps", *names).drop_nulls()
    frame = frame.filter(pl.all_horizontal(pl.col(names).is_finite()))
    if frame.is_empty() or not regression(run):
        return None
    probes = frame.head(1) if first else frame.tail(max(1, frame.height // 4))
    targets = scalar(frame["target_max"].max()) - scalar(frame["target_min"].min())
    predictions = scalar((probes["prediction_max"] - probes["prediction_min"]).median())
    return predictions / targets if targets > 0 else None


def regression(run: Run) -> bool:
    """Whether the loss compares predictions with targets of the same shape: by its name, or for an unknown by both."""
    name = loss_name(run)
    detail = _first_call(run)
    same = detail.get("prediction_shape") == detail.get("target_shape") is not None
    real = all(str(detail.get(key)).startswith(("float", "bfloat")) for key in ("prediction_dtype", "target_dtype"))
    return name in _REGRESSION or (name == "" and same and real)


def given_probabilities(run: Run) -> bool:
    """Whether a cross-entropy that expects logits is given probabilities: not negative, and adding up to one."""
    names = ("prediction_min", "prediction_sum_min", "prediction_sum_max")
    frame = run.frame("steps", *names).drop_nulls()
    if frame.is_empty() or loss_name(run) != "crossentropy":
        return False
    sums = pl.col("prediction_sum_min", "prediction_sum_max").is_between(0.99, 1.01)
    return bool(frame.select((pl.all_horizontal(sums) & (pl.col("prediction_min") >= 0)).all()).item())


def constant_input(run: Run) -> bool:
    """Whether the model's input was recorded and had one and the same value in all places, at all probes."""
    values = run.frame("steps", "input_std")["input_std"].drop_nulls()
    return len(values) > 0 and scalar(values.max()) == 0


def full_batch(run: Run, probes: int = 10) -> bool:
    """Whether the model's input was recorded and was the same at all probes, up to the rounding of sums."""
    names = ("input_mean", "input_std", "input_absmax")
    frame = run.frame("steps", *names).drop_nulls()
    if frame.height < probes:
        return False
    size = scalar(frame["input_absmax"].max())
    return all(scalar(frame[name].max()) - scalar(frame[name].min()) <= 1e-5 * size for name in names)


def _first_call(run: Run) -> Mapping[str, Any]:
    """What was told of the first kind of call of the loss; empty if none was seen."""
    return next((event.detail for event in run.events_of("loss-input")), {})


def loss_name(run: Run) -> str:
    """The loss that is differentiated, functional or module alike: `crossentropy`, `mse`, or empty if unknown."""
    detail = _first_call(run)
    name = str(detail.get("loss") or (run.manifest.loss.type if run.manifest.loss else ""))
    return name.lower().replace("_", "").removesuffix("loss")


@per_run
def zero_information(run: Run) -> ZeroInformation | None:
    """The loss of a model that knows nothing, for a classification; None if the loss is no cross-entropy as it stands.

    The mean cross-entropy of logits that span R lies within R of ln C. A recorded loss outside that was scaled, or
    holds more terms; if the first logits said little, the first loss is itself taken for the zero-information value.
    """
    found = _cross_entropy(run)
    first = losses(run).head(1)
    if found is None or first.is_empty():
        return None
    loss, span = float(first["loss"][0]), logit_span(run)
    if span is None:
        return found if 0.7 < loss / found.uniform < 1.5 else None
    if abs(loss - found.uniform) <= (span + 0.01) * found.scale:
        return found
    if span > SANE_SPAN or loss <= 0:
        return None
    return ZeroInformation(
        uniform=loss,
        prior=found.prior * loss / found.uniform,
        scale=found.scale * loss / found.uniform,
        name="the loss of the first predictions",
    )


def logit_span(run: Run) -> float | None:
    """Spread of the logits that a cross-entropy was first given, largest less smallest; None if not recorded."""
    frame = run.frame("steps", "prediction_min", "prediction_max").drop_nulls().head(1)
    if frame.is_empty() or loss_name(run) not in _CATEGORICAL | _BINARY:
        return None
    span = float(frame["prediction_max"][0] - frame["prediction_min"][0])
    return span if math.isfinite(span) else None


_BINARY = frozenset({"bcewithlogits", "bce", "binarycrossentropy", "binarycrossentropywithlogits"})
_CATEGORICAL = frozenset({"crossentropy", "nll"})
_REGRESSION = frozenset({"mse", "l1", "smoothl1", "huber"})


def _cross_entropy(run: Run) -> ZeroInformation | None:
    """ln C and the entropy of the class frequencies, if the loss is a cross-entropy by its name."""
    detail = _first_call(run)
    name = loss_name(run)
    frequencies, samples = class_frequencies(run), contrastive_batch(run)
    classes = samples or (2 if name in _BINARY else _classes(detail.get("prediction_shape")) or len(frequencies))
    if name not in _BINARY | _CATEGORICAL or classes < 2:
        return None
    uniform, prior = math.log(classes), sum(-share * math.log(share) for share in frequencies if share > 0)
    scale = _reduction_scale(run, detail.get("target_shape"))
    # Of a weighted loss the classes count other than by their frequency; mostly by design they count the same.
    counted = len(frequencies) == classes and not weighted(run)
    skewed = counted and 0 < prior < 0.98 * uniform
    return ZeroInformation(
        uniform=scale * uniform,
        prior=scale * (prior if skewed else uniform),
        scale=scale,
        name="the entropy of the class frequencies" if skewed else f"ln {classes}",
    )


def weighted(run: Run) -> bool:
    """Whether some call of the loss was given weights of classes or elements."""
    return any(event.detail.get("weighted") is True for event in run.events_of("loss-input"))


@per_run
def class_frequencies(run: Run) -> list[float]:
    """Share of each class among all targets seen at probes; empty if too few were seen to tell."""
    counts = run.frame("steps", "class_counts").drop_nulls().select("class_counts")
    sums = (
        counts.with_columns(pl.int_ranges(pl.col("class_counts").list.len()).alias("class"))
        .explode("class_counts", "class")
        .group_by("class", maintain_order=True)
        .agg(pl.col("class_counts").sum())["class_counts"]
    )
    total = scalar(sums.sum())
    return (sums / total).to_list() if total >= 20 * sums.len() > 0 else []


def _classes(shape: object) -> int:
    """Number of classes by the shape of the prediction: its second dimension, the only one of a single sample."""
    if not isinstance(shape, list) or not shape or not isinstance(size := shape[min(1, len(shape) - 1)], int):
        return 0
    return size


def _reduction_scale(run: Run, shape: object) -> float:
    """Targets in a batch if the loss is their sum, else 1."""
    summed = run.manifest.loss is not None and run.manifest.loss.reduction == "sum"
    sizes = [size for size in shape if isinstance(size, int)] if isinstance(shape, list) else []
    return float(math.prod(sizes)) if summed and sizes else 1.0
