"""Model input: location, scale, spread of scale over the features, and non-finite values of what the model is given."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..precision import widest
from ..schema import STEPS
from ..tensors import readable
from .base import Instrument

if TYPE_CHECKING:
    from ..step import Step

LIMIT = 1 << 15
"""Values of an input that moments are taken of; a larger one is thinned out evenly."""
COLUMNS = ("input_mean", "input_std", "input_absmax", "input_nonfinite", "input_spread")


class ModelInput(Instrument):
    """Moments of the first floating-point input, over all micro-batches of the step."""

    name = "model-input"
    columns = tuple(STEPS[column] for column in COLUMNS)
    _moments: Moments | None = None

    def begin(self, step: Step) -> None:
        """Forget the previous probe."""
        self._moments = None

    def after_backward(self, step: Step) -> None:
        """Take in the input of a micro-batch, once."""
        if step.micro_batches[-1].again:
            return
        chosen, reason = choose(step.micro_batches[-1].inputs)
        if chosen is None:
            self.context.explain(tuple(f"steps.{column}" for column in COLUMNS), reason)
            return
        self._moments = merge(self._moments, moments(chosen))
        values = summary(self._moments)
        if not has_features(chosen):
            del values["input_spread"]
            self.context.explain(("steps.input_spread",), f"a {chosen.ndim}-d input has no known feature dimension")
        for column, value in values.items():
            step.put(column, value)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sufficient statistics of the finite values, per feature (one, where the features are unknown)."""

    count: Tensor
    """(features,)"""
    mean: Tensor
    """(features,), zero where the count is"""
    m2: Tensor
    """(features,), sum of the squared deviations from the mean"""
    absmax: Tensor
    """0-d"""
    nonfinite: Tensor
    """0-d"""


def choose(inputs: Iterable[Tensor]) -> tuple[Tensor | None, str]:
    """The first floating-point tensor with values, or None and why there is no such."""
    reason = "no tensor given to the model's forward pass was seen"
    for x in inputs:
        if not x.is_floating_point():
            reason = f"the model's input is {str(x.dtype).removeprefix('torch.')}, not floating-point"
        elif not readable(x):
            reason = "the model's input is not a dense tensor"
        elif x.numel() == 0:
            reason = "the model's input is empty"
        else:
            return x, ""
    return None, reason


def has_features(x: Tensor) -> bool:
    """Whether dimension 1 is known to hold the features: (B, F), images and volumes (B, C, ...), not 3-d sequences."""
    return x.ndim in (2, 4, 5)


def moments(x: Tensor) -> Moments:
    """Moments of the finite values of a floating-point tensor, in double precision where the device has it."""
    x = x.detach()
    values = by_feature(thinned(x)).to(widest(x.device))
    finite = values - values == 0  # neither infinity nor NaN; far quicker than to ask for them
    values = values.where(finite, 0.0)
    count = finite.sum(1).to(values.dtype)
    mean = values.sum(1) / count.clamp(min=1)
    zeroed = values.shape[1] - count  # each of them adds the square of the mean
    m2 = ((values - mean[:, None]).square_().sum(1) - zeroed * mean.square()).clamp(min=0)
    nonfinite = zeroed.sum() if values.numel() == x.numel() else count_nonfinite(x)
    return Moments(count, mean, m2, values.abs().amax(), nonfinite)


def count_nonfinite(x: Tensor) -> Tensor:
    """Number of non-finite values, 0-d, of the whole tensor."""
    x = x if x.itemsize > 1 else x.float()
    return torch.count_nonzero(x - x)


def merge(a: Moments | None, b: Moments) -> Moments:
    """Moments of two sets of values together; of the second alone, if the first has other features."""
    if a is None or a.count.shape != b.count.shape:
        return b
    pairs = (torch.stack((getattr(a, name), getattr(b, name))) for name in ("count", "mean", "m2"))
    return Moments(*pool(*pairs), torch.maximum(a.absmax, b.absmax), a.nonfinite + b.nonfinite)


def pool(count: Tensor, mean: Tensor, m2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Counts, means and squared deviations of groups, united along the first dimension (Chan et al. 1979)."""
    total = count.sum(0)
    center = (count * mean).sum(0) / total.clamp(min=1)
    return total, center, (m2 + count * (mean - center).square()).sum(0)


def summary(m: Moments) -> dict[str, Tensor]:
    """The columns, 0-d; NaN where no value was finite, and for the spread where no feature varies.

    The spread means something only for an input that `has_features`. Standard deviations divide by the count. A feature
    whose deviation is rounding beside its mean does not vary.
    """
    count, mean, m2 = pool(m.count, m.mean, m.m2)
    known = count > 0
    columns = {"input_mean": mean, "input_std": (m2 / count).sqrt(), "input_absmax": m.absmax}
    columns = {name: value.where(known, math.nan) for name, value in columns.items()}
    columns["input_nonfinite"] = m.nonfinite
    columns["input_spread"] = spread((m.m2 / m.count.clamp(min=1)).sqrt(), m.mean)
    return columns


def spread(std: Tensor, mean: Tensor) -> Tensor:
    """Largest over smallest non-zero standard deviation (features,) -> 0-d."""
    varies = std > 8 * torch.finfo(std.dtype).eps * mean.abs()
    ratio = std.amax() / std.where(varies, math.inf).amin()
    return ratio.where(varies.any(), math.nan)


def by_feature(x: Tensor) -> Tensor:
    """Values as (features, values of each)."""
    return x.movedim(1, 0).flatten(1) if has_features(x) and x.ndim > 2 else x.T if x.ndim == 2 else x.reshape(1, -1)


def thinned(x: Tensor) -> Tensor:
    """A view of at most about LIMIT values, evenly strided: over positions first, then samples, then features."""
    for dim in (*range(2, x.ndim), 0, 1):
        if dim < x.ndim and x.numel() > LIMIT:
            stride = min(x.shape[dim], math.ceil(x.numel() / LIMIT))
            x = x[(slice(None),) * dim + (slice(None, None, stride),)]
    return x
