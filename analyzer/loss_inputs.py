"""What the loss is given: shapes, and whether its predictions are logits, probabilities or logarithms of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import polars as pl

from .noise import scalar
from .progress import loss_name
from .run import Run

Shape = tuple[int, ...]

OVER_CLASSES = frozenset({"crossentropy", "kldiv", "nll", "multimargin"})
"""Losses whose prediction runs over mutually exclusive classes in its second dimension."""
LOGITS = frozenset({"crossentropy", "bcewithlogits", "binarycrossentropywithlogits"})
"""Losses that apply a softmax or a sigmoid themselves."""
LOGARITHMS = frozenset({"nll", "kldiv"})
"""Losses that expect logarithms of probabilities."""

_ONE = 0.01
"""How far the sums of probabilities may be from one: 16-bit floats round them by 0.4 %."""
_WIDE = 0.5
"""Width of a range within [0, 1] that logits of a network that learns anything would have left."""


@dataclass(frozen=True, slots=True)
class LossCall:
    """A kind of call of the loss, as first seen. A shape is None where there was no such tensor."""

    step: int | None
    name: str
    prediction: Shape | None
    target: Shape | None

    @property
    def broadcast(self) -> Shape | None:
        """The common shape that prediction and target are broadcast to; None if there is none."""
        if self.prediction is None or self.target is None:
            return None
        pairs = list(zip_longest(reversed(self.prediction), reversed(self.target), fillvalue=1))
        if any(1 not in pair and pair[0] != pair[1] for pair in pairs):
            return None
        return tuple(max(pair) if 0 not in pair else 0 for pair in reversed(pairs))


def loss_calls(run: Run) -> tuple[LossCall, ...]:
    """The kinds of calls of the loss that were seen, in order."""
    return tuple(
        LossCall(
            step=event.step,
            name=str(event.detail.get("loss") or ""),
            prediction=_shape(event.detail.get("prediction_shape")),
            target=_shape(event.detail.get("target_shape")),
        )
        for event in run.events_of("loss-input")
    )


def same_loss_throughout(run: Run) -> bool:
    """Whether all calls that were seen are of one loss, so that the ranges of the predictions are of one kind."""
    return len({call.name for call in loss_calls(run)}) <= 1


def ranges(run: Run) -> pl.DataFrame:
    """The finite ranges of the predictions: `low`, `high`, and `least`, `most` of their sums over the classes."""
    names = ("prediction_min", "prediction_max", "prediction_sum_min", "prediction_sum_max")
    short = ("low", "high", "least", "most")
    frame = run.frame("steps", *names, "batch_size").rename(dict(zip(names, short, strict=True)))
    return frame.filter(pl.col("low").is_finite() & pl.col("high").is_finite())


def add_up_to_one(frame: pl.DataFrame) -> bool:
    """Whether all predictions of `ranges` are probabilities that add up to one over the classes."""
    near = pl.col("least", "most").is_between(1 - _ONE, 1 + _ONE)
    return _always(frame, near, pl.col("low") >= 0)


def squashed(run: Run, frame: pl.DataFrame) -> bool:
    """Whether the predictions of `ranges` are outputs of sigmoids or a softmax: never outside [0, 1] nor zero.

    Logits happen to lie there too as long as they say little: either the model ends in such a module, or the
    predictions spread over half of that range.
    """
    if not _always(frame, pl.col("low") >= 0, pl.col("high") <= 1):
        return False
    zero = scalar((frame["low"] == 0).mean())
    width = scalar((frame["high"] - frame["low"]).max())
    return zero < 0.5 and (ends_in(run) in {"Sigmoid", "Softmax"} or width >= _WIDE)


def ends_in(run: Run) -> str:
    """The type of the last module that is no dropout; "" if none is known."""
    types = [module.type for module in run.manifest.modules if not module.type.startswith(("Dropout", "Identity"))]
    return types[-1] if len(types) > 1 else ""


@dataclass(frozen=True, slots=True)
class OtherDimension:
    """Predictions that are normalised over a dimension that is not that of the classes.

    `dim` counts from 0, and has `size` entries. `logarithms`: whether of probabilities or of their logarithms.
    """

    dim: int
    size: int
    classes: int
    logarithms: bool


def normalised_elsewhere(run: Run, frame: pl.DataFrame) -> OtherDimension | None:
    """The dimension over which a softmax was taken by mistake; None if the predictions do not show such a thing.

    A softmax over n samples makes the entries 1/n on average, and the sums over C classes C/n, whatever is learned.
    Logarithms of it are at most -ln n on average; if they are below -ln C everywhere, they add up to less than one over
    the classes.
    """
    call = next(iter(loss_calls(run)), None)
    shape = call.prediction if call else None
    if loss_name(run) not in OVER_CLASSES or shape is None or len(shape) < 2 or add_up_to_one(frame):
        return None
    frame = frame.drop_nulls(["least", "most"])
    for dim in (0, *range(2, len(shape))):
        other = OtherDimension(dim, shape[dim], shape[1], logarithms=bool((frame["low"] < 0).any()))
        if other.size >= 4 and other.classes >= 2 and _fits(frame, other):
            return other
    return None


def _fits(frame: pl.DataFrame, other: OtherDimension) -> bool:
    """Whether every probe shows what a softmax over the other dimension would."""
    size = pl.lit(float(other.size))
    if other.dim == 0:  # the last batch may be a smaller one
        size = size * (pl.col("batch_size") / pl.col("batch_size").first()).fill_null(1.0)
    if other.logarithms:
        mean, tolerance = -size.log(), 0.02 * size.log()
        unnormalised = pl.col("high") < -math.log(other.classes) * 1.02
        shown = bool(frame.select(unnormalised.any()).item()) if frame.height else False
        below = pl.col("least") <= other.classes * (mean + tolerance)
        return shown and _always(frame, pl.col("high") <= 1e-3, below, pl.col("high") >= mean - tolerance)
    mean = 1 / size
    sums = (pl.col("least") <= 1.02 * other.classes * mean, pl.col("most") >= 0.98 * other.classes * mean)
    inside = (pl.col("low") >= 0, pl.col("high") <= 1 + 1e-3, pl.col("low") <= mean, pl.col("high") >= 0.98 * mean)
    return scalar((frame["low"].head(3) > 0).mean()) == 1 and _always(frame, *sums, *inside)


def lowest_cross_entropy(classes: int) -> float:
    """What the cross-entropy of predictions within [0, 1] cannot fall below: ln(C - 1 + e) - 1."""
    return math.log(classes - 1 + math.e) - 1


def _always(frame: pl.DataFrame, *conditions: pl.Expr) -> bool:
    if frame.is_empty():
        return False
    return bool(frame.select(pl.all_horizontal(*conditions).fill_null(value=False).all()).item())


def _shape(value: object) -> Shape | None:
    if not isinstance(value, list) or not all(isinstance(size, int) for size in value):
        return None
    return tuple(value)


def sizes(shape: Shape | None) -> str:
    """A shape as Python writes it."""
    return "nothing" if shape is None else str(shape)


def _numel(shape: Shape) -> int:
    return math.prod(shape)


def outer(run: Run) -> Iterator[LossCall]:
    """Calls in which every entry of the prediction meets every target: broadcast to more than either of them holds.

    Only shapes of different numbers of dimensions count: who adds a dimension to both means it (pairs, quantiles).
    """
    for call in loss_calls(run):
        together = call.broadcast
        if together is None or call.prediction is None or call.target is None:
            continue
        if len(call.prediction) != len(call.target) and _numel(together) > max(
            _numel(call.prediction), _numel(call.target)
        ):
            yield call
