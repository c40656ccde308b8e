"""Answer among the features: whether one feature of the input is a copy of the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..precision import widest
from ..schema import STEPS
from ..tensors import readable
from .base import Instrument
from .loss_input import classified

if TYPE_CHECKING:
    from ..context import Context
    from ..step import MicroBatch, Step

FEATURES = 1 << 14
"""Features of a sample that are looked at; larger inputs are images, whose features are no columns."""
LEVELS = 64
"""Classes that are told apart; with more of them there are few samples of each."""
ENTRIES = 1 << 20
"""Features times classes, and features times samples of a batch."""
BATCHES = 100
"""Micro-batches that are taken in: more samples prove no more."""


class AnswerInFeatures(Instrument):
    """The share of each feature's variance that the target explains, over all samples of the first probes.

    Of classes by the variance between them (the correlation ratio), of one number a sample by the squared correlation.
    It is 1 where the feature is a copy of the target, one-hot or by any linear map, and less for all others.
    """

    name = "answer-in-features"
    columns = (STEPS["copied_share"], STEPS["copied_feature"], STEPS["copied_samples"])

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sums: Sums | None = None
        self._batches = 0

    def after_backward(self, step: Step) -> None:
        """Take in a micro-batch."""
        micro = step.micro_batches[-1]
        if micro.again or self._batches >= BATCHES:
            return
        features = features_of(micro)
        levels = None if features is None else levels_of(micro, micro.samples or 0, len(features))
        if features is None or levels is None or levels.shape[1] * features.shape[1] > ENTRIES:
            self.explain("no target of one class or one number a sample, or none or too many features in the input")
            return
        self._batches += 1
        sums = self._sums
        if sums is None or sums.shape != (levels.shape[1], features.shape[1]):
            sums = self._sums = Sums(levels, features)
        sums.add(levels, features)
        share, position = sums.explained().max(0)  # NaN, where there is one
        step.put("copied_share", share)
        step.put("copied_feature", position.to(share.dtype))
        step.put("copied_samples", sums.count.clone())


class Sums:
    """Sums over samples of features, targets and their products, about a first guess of their means.

    Of classes the levels are their indicators, of a number it is the number itself. `count`: the samples, 0-d.
    """

    def __init__(self, levels: Tensor, features: Tensor) -> None:
        self.shape = levels.shape[1], features.shape[1]
        self._classes = levels.shape[1] > 1
        self._level = torch.zeros_like(levels[0]) if self._classes else levels.mean(0)
        self._feature = features.mean(0)
        self.count, self._levels = features.new_zeros(()), levels.new_zeros(levels.shape[1])
        self._squared_levels = levels.new_zeros(levels.shape[1])
        self._features, self._squares = torch.zeros_like(self._feature), torch.zeros_like(self._feature)
        self._products = features.new_zeros(self.shape)
        self._largest = torch.zeros_like(self._feature)

    def add(self, levels: Tensor, features: Tensor) -> None:
        """Take in levels (samples, levels) and features (samples, features); samples of no class are left out."""
        counted = levels.sum(1, keepdim=True) if self._classes else torch.ones_like(levels)
        levels, features = levels - self._level, (features - self._feature) * counted
        self.count += counted.sum()
        self._levels += levels.sum(0)
        self._squared_levels += levels.square().sum(0)
        self._features += features.sum(0)
        self._squares += features.square().sum(0)
        self._products += levels.T @ features
        self._largest = torch.maximum(self._largest, features.abs().amax(0))

    def explained(self) -> Tensor:
        """Share of the variance of each feature that the target explains (features,); 0 where it hardly varies.

        NaN where only one feature varies, which may well be all there is to know, or where a target was not finite.
        """
        total = self._squares - self._features.square() / self.count
        varies = total > 1e-12 * self._squares.amax().clamp_min(torch.finfo(total.dtype).tiny)
        several = varies.sum() > 1
        if self._classes:
            varies = varies & self._widespread(total)
            between = (self._products.square() / self._levels.clamp(min=1)[:, None]).sum(0)
            between = between - self._features.square() / self.count
        else:
            products = self._products[0] - self._features * self._levels[0] / self.count
            spread = self._squared_levels[0] - self._levels[0].square() / self.count
            between = products.square() / spread.clamp_min(torch.finfo(total.dtype).tiny)
        return (between / total.where(varies, 1.0)).where(varies, 0.0).clamp(0, 1).where(several, torch.nan)

    def _widespread(self, total: Tensor) -> Tensor:
        """Whether a feature differs from its mean in more samples than a rare class has (features,).

        A value that a share p of the samples has lies (1 - p) / p variances from the mean. Of a quarter of what equally
        frequent classes have there may be one sample, seen again and again, with an odd feature of its own.
        """
        ratio = self.count * self._largest.square() / total.clamp_min(torch.finfo(total.dtype).tiny)
        return 1 / (1 + ratio) > 1 / (4 * self.shape[0])


def features_of(micro: MicroBatch) -> Tensor | None:
    """All inputs of the samples, flattened (samples, features), in double precision where the device has it.

    Values that are not finite count as 0. A target that the model is given as well, to make the loss itself, is no
    feature. None if there are no features, only one, or too many.
    """
    samples, target = micro.samples, micro.target
    found = []
    for given in micro.inputs:
        usable = target is not None and readable(given) and not given.is_complex() and given.device == target.device
        if not usable or target is None or given.data_ptr() == target.data_ptr():
            continue
        if samples and given.dim() and len(given) == samples and given.numel():
            found.append(given.detach().reshape(samples, -1))
    if not samples or not found or not 1 < sum(x.shape[1] for x in found) <= FEATURES:
        return None
    some = max(1, ENTRIES // sum(x.shape[1] for x in found))
    x = torch.cat([x[:some].to(widest(x.device)) for x in found], 1)
    return x.where(x.isfinite(), 0.0)


def levels_of(micro: MicroBatch, samples: int, some: int) -> Tensor | None:
    """Of the first samples: indicators of the classes (some, classes), or numbers (some, 1); None if it is neither."""
    target = micro.target
    if target is None or target.numel() != samples or not readable(target):
        return None
    known, precision = classified(micro), widest(target.device)
    if not isinstance(known, str):
        _, labels, classes = known
        if classes > LEVELS:
            return None
        labels = labels.reshape(-1)[:some].long()
        one_hot = torch.zeros(some, classes + 1, dtype=precision, device=target.device)
        index = labels.where((labels >= 0) & (labels < classes), classes).unsqueeze(1)
        return one_hot.scatter_(1, index, 1.0)[:, :classes]
    if not target.is_floating_point():
        return None
    return target.detach().reshape(-1, 1)[:some].to(precision)
