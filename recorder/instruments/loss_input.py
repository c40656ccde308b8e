"""Loss input: shapes, types and ranges of what the loss is given, and how often each class occurs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..classes import OVER_ELEMENTS, class_dim, holds_classes, plain_name
from ..precision import widest
from ..schema import STEPS
from .base import Instrument

if TYPE_CHECKING:
    from ..context import Context
    from ..step import MicroBatch, Step

CLASS_LIMIT = 1000
"""Classes that are counted one by one."""
UNSEEN = "the call of the loss was not seen; give outputs= and targets= to step.backward"
UNORDERED = "there is none, or it is empty, sparse or complex"
IGNORED = -100
"""Target that the classification losses of torch leave out unless told otherwise."""

_MERGE: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "loss_part": torch.add,
    "prediction_min": torch.minimum,
    "prediction_max": torch.maximum,
    "prediction_sum_min": torch.minimum,
    "prediction_sum_max": torch.maximum,
    "target_min": torch.fmin,
    "target_max": torch.fmax,
    "class_counts": torch.add,
    "class_hits": torch.add,
}
"""How the values of two micro-batches combine. NaN of a prediction stays; NaN of a target says that it had no value."""

_YES = {"bce": 0.5, "binarycrossentropy": 0.5, "bcewithlogits": 0.0, "binarycrossentropywithlogits": 0.0}
"""Losses of two classes, and the prediction above which it is the second."""


class LossInput(Instrument):
    """Ranges and class counts over the micro-batches of a step; shapes and types as an event for each kind of call."""

    name = "loss-input"
    columns = tuple(STEPS[column] for column in _MERGE)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._kinds: set[object] = set()
        self._classes: int | None = None
        self._values: dict[str, Tensor] = {}

    def begin(self, step: Step) -> None:
        """Forget the previous probe."""
        self._values = {}

    def after_backward(self, step: Step) -> None:
        """Take in the loss call of a micro-batch."""
        micro = step.micro_batches[-1]
        if micro.prediction is None:
            self._explain(tuple(_MERGE), UNSEEN)
            return
        self._tell(micro)
        values = self._part(micro) | self._prediction(micro.prediction, micro) | self._target(micro)
        self._values |= merged(self._values, values)
        for column, value in self._values.items():
            step.put_vector(column, value) if value.ndim else step.put(column, value)

    def _tell(self, micro: MicroBatch) -> None:
        kind = kind_of(micro)
        if kind not in self._kinds:
            self._kinds.add(kind)
            detail = described(micro)
            given = f"{_words(detail, 'prediction')} and {_words(detail, 'target')}"
            self.context.event("loss-input", f"{detail['loss'] or 'The loss'} is given {given}", **detail)

    def _part(self, micro: MicroBatch) -> dict[str, Tensor]:
        if micro.part is None:
            self._explain(("loss_part",), "the loss is no sum with a multiple of a loss that was seen being called")
            return {}
        return {"loss_part": micro.part}

    def _prediction(self, prediction: Tensor, micro: MicroBatch) -> dict[str, Tensor]:
        if not has_range(prediction):
            self._explain(tuple(c for c in _MERGE if c.startswith("prediction")), UNORDERED)
            return {}
        low, high = torch.aminmax(prediction)
        dim = class_dim(prediction, micro.target, micro.loss_name)
        if dim is None:
            self._explain(("prediction_sum_min", "prediction_sum_max"), "the loss has no dimension of classes")
            return {"prediction_min": low, "prediction_max": high}
        least, most = torch.aminmax(sums(prediction, dim))
        return {"prediction_min": low, "prediction_max": high, "prediction_sum_min": least, "prediction_sum_max": most}

    def _target(self, micro: MicroBatch) -> dict[str, Tensor]:
        target = micro.target
        if target is None or not has_range(target):
            self._explain(("target_min", "target_max", "class_counts", "class_hits"), UNORDERED)
            return {}
        low, high = target_range(target, self._ignored(micro))
        return {"target_min": low, "target_max": high} | self._counts(micro)

    def _counts(self, micro: MicroBatch) -> dict[str, Tensor]:
        found = classified(micro)
        if not isinstance(found, str) and found[2] != (self._classes or found[2]):
            found = f"another loss with {found[2]} classes; those of the first loss are counted"
        if isinstance(found, str):
            self._explain(("class_counts", "class_hits"), found)
            return {}
        predicted, target, self._classes = found
        ignored = self._ignored(micro)
        counts = {"class_counts": counted(target, self._classes, ignored)}
        if predicted.shape != target.shape:
            return counts
        return counts | {"class_hits": counted(hit(predicted, target), self._classes, ignored)}

    @staticmethod
    def _ignored(micro: MicroBatch) -> int | None:
        if micro.loss_name is not None and plain_name(micro.loss_name) in OVER_ELEMENTS:
            return None
        return IGNORED if micro.ignore_index is None else micro.ignore_index

    def _explain(self, columns: tuple[str, ...], reason: str) -> None:
        self.context.explain(tuple(f"steps.{column}" for column in columns), reason)


def merged(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values of two micro-batches together."""
    return {name: _MERGE[name](first[name], value) if name in first else value for name, value in second.items()}


def described(micro: MicroBatch) -> dict[str, Any]:
    """Detail of a `loss-input` event."""
    detail: dict[str, Any] = {"loss": micro.loss_name, "weighted": micro.weighted}
    detail["label_smoothing"] = micro.label_smoothing
    for name, tensor in (("prediction", micro.prediction), ("target", micro.target)):
        detail[f"{name}_shape"] = None if tensor is None else list(tensor.shape)
        detail[f"{name}_dtype"] = None if tensor is None else str(tensor.dtype).removeprefix("torch.")
    return detail


def kind_of(micro: MicroBatch) -> object:
    """What distinguishes one kind of loss call from another, whatever the size of the batch or of a sequence.

    The loss, the types, the numbers of dimensions, and how the dimensions meet when they are broadcast.
    """
    prediction, target = micro.prediction, micro.target
    if prediction is None or target is None:
        return micro.loss_name, None if prediction is None else (prediction.dtype, prediction.ndim)
    pairs = zip(reversed(prediction.shape), reversed(target.shape), strict=False)
    meeting = tuple("same" if p == t else "prediction" if p == 1 else "target" if t == 1 else "other" for p, t in pairs)
    return micro.loss_name, prediction.dtype, target.dtype, prediction.ndim, target.ndim, meeting


def has_range(x: Tensor) -> bool:
    """Whether a smallest and a largest value exist."""
    return x.numel() > 0 and not x.is_complex() and x.layout == torch.strided and not x.is_nested


def classified(micro: MicroBatch) -> tuple[Tensor, Tensor, int] | str:
    """The predicted and the true classes, and how many there are; or why they are not known.

    Of a binary loss only where each sample has one target: pixels and labels that exclude no other are not counted.
    """
    prediction, target = micro.prediction, micro.target
    limit = _YES.get(plain_name(micro.loss_name or ""))
    if prediction is None or target is None:
        return "the targets are not class indices"
    if limit is not None and prediction.shape == target.shape and prediction.shape[:1].numel() == prediction.numel():
        return (prediction > limit).long(), (target > 0.5).long(), 2
    if not holds_classes(target):
        return "the targets are not class indices"
    dim = class_dim(prediction, target, micro.loss_name)
    if dim is None:
        return "the loss has no dimension of classes"
    classes = prediction.shape[dim]
    if classes > CLASS_LIMIT:
        return f"more than {CLASS_LIMIT} classes"
    return prediction.argmax(dim), target, classes


def sums(prediction: Tensor, dim: int) -> Tensor:
    """Sums over the classes, at least in float32."""
    return prediction.sum(dim, dtype=torch.promote_types(prediction.dtype, torch.float32))


def target_range(target: Tensor, ignored: int | None) -> tuple[Tensor, Tensor]:
    """Smallest and largest value, 0-d; of integers without the ignored index, NaN if nothing else is there."""
    if ignored is None or not holds_classes(target):
        low, high = torch.aminmax(target)
        return low, high
    values, kept = target.to(widest(target.device)), target != ignored
    low, high = values.where(kept, math.inf).amin(), values.where(kept, -math.inf).amax()
    return low.where(low <= high, math.nan), high.where(low <= high, math.nan)


def counted(target: Tensor, classes: int, ignored: int | None) -> Tensor:
    """How often each class occurs (classes,); targets that are ignored or no class are left out."""
    index = target.reshape(-1).long()
    valid = (index >= 0) & (index < classes) & (index != ignored)
    index = index.where(valid, classes)
    counts = torch.zeros(classes + 1, dtype=torch.int64, device=target.device)
    return counts.scatter_add_(0, index, valid.long())[:-1]


def hit(predicted: Tensor, target: Tensor) -> Tensor:
    """The targets that were predicted, -1 in place of the others."""
    return target.long().where(predicted == target, -1)


def _words(detail: Mapping[str, Any], name: str) -> str:
    if detail[f"{name}_shape"] is None:
        return f"no {name}"
    return f"a {name} of shape {tuple(detail[f'{name}_shape'])} in {detail[f'{name}_dtype']}"
