"""Which dimension of a prediction runs over classes, and which targets can be class indices."""

from __future__ import annotations

import torch
from torch import Tensor

OVER_CLASSES = frozenset({"crossentropy", "kldiv", "nll", "multimargin"})
OVER_ELEMENTS = frozenset(
    {
        "bce", "bcewithlogits", "binarycrossentropy", "binarycrossentropywithlogits", "cosineembedding", "ctc",
        "gaussiannll", "hingeembedding", "huber", "l1", "marginranking", "mse", "multilabelmargin",
        "multilabelsoftmargin", "poissonnll", "smoothl1", "softmargin", "tripletmargin", "tripletmarginwithdistance",
    }
)  # fmt: skip
"""Losses of torch, functional and module alike, that have no dimension of mutually exclusive classes.

That of the Kullback-Leibler divergence has one in all its uses, though its definition does not say so."""


def class_dim(prediction: Tensor, target: Tensor | None, loss_name: str | None) -> int | None:
    """The dimension of a floating prediction that runs over mutually exclusive classes, None if there is no such.

    Known for the losses of torch. Otherwise integer targets tell: they have the prediction's shape without it.
    """
    name = plain_name(loss_name or "")
    if not prediction.is_floating_point() or prediction.ndim == 0 or name in OVER_ELEMENTS:
        return None
    if name in OVER_CLASSES:
        return min(1, prediction.ndim - 1)
    if target is None or not holds_classes(target):
        return None
    if prediction.shape[:-1] == target.shape:
        return prediction.ndim - 1
    return 1 if prediction.shape[:1] + prediction.shape[2:] == target.shape and prediction.ndim > 1 else None


def holds_classes(target: Tensor) -> bool:
    """Whether a target can be class indices."""
    return not (target.is_floating_point() or target.is_complex() or target.dtype == torch.bool)


def plain_name(loss_name: str) -> str:
    """One name for a functional loss and its module: `cross_entropy` and `CrossEntropyLoss` become `crossentropy`."""
    return loss_name.replace("_", "").lower().removesuffix("loss")
