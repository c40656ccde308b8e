"""Inputs of a model and the targets that are in step with them, position by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from .classes import class_dim, holds_classes
from .tensors import readable

SHORTEST = 4
"""Positions of the shortest sequence that is looked at."""
TARGETS = 64
"""Targets in a batch; of fewer, some may equal inputs by chance."""


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """An input of the model and the targets in step with it: both (samples, positions, ...), or positions first.

    `given`: the input as it came. `values`: in the form of the targets. `dim`: the dimension of the positions.
    """

    given: Tensor
    values: Tensor
    target: Tensor
    dim: int

    @property
    def length(self) -> int:
        """Positions that have a target."""
        return self.target.shape[self.dim]


def alignments(inputs: Sequence[Tensor], target: Tensor, *, by_time: bool) -> Iterator[Alignment]:
    """The inputs that the targets may be in step with: positions second, and with `by_time` also positions first.

    The targets may have been cut off by one position, and those that are classes may be flattened.
    """
    flat = target.dim() == 1 and holds_classes(target)
    for given in inputs:
        values = as_values(given, target)
        if values is None or values.numel() < TARGETS:
            continue
        for dim, cut in product((1, 0) if by_time else (1,), (0, 1)):
            shape = list(values.shape)
            shape[dim] -= cut
            fits = target.numel() == values.numel() // values.shape[dim] * shape[dim]
            if shape[dim] >= SHORTEST and fits and (flat or list(target.shape[:2]) == shape[:2]):
                yield Alignment(given, values, target.reshape(shape), dim)


def as_values(given: Tensor, target: Tensor) -> Tensor | None:
    """An input in the form of the targets, one-hot vectors as classes; None if it can be no such sequence."""
    apart = given.device != target.device or given.dtype == torch.bool or given.is_complex()
    if apart or not readable(given) or given.dim() < 2:
        return None
    if not holds_classes(target):
        return given if given.is_floating_point() and given.dim() in (2, 3) else None
    if given.is_floating_point() and given.dim() == 3:
        return given.argmax(-1)
    return given if given.dim() == 2 else None


def equal_share(one: Alignment, lag: int, ignored: int | None) -> Tensor:
    """Share of the targets that equal the input `lag` positions further on, 0-d; ignored ones are left out."""
    count = min(one.length, one.values.shape[one.dim] - lag)
    target = one.target.narrow(one.dim, 0, count)
    values = one.values.narrow(one.dim, lag, count)
    if not target.is_floating_point():
        counted = (target >= 0) & (target != (-1 if ignored is None else ignored))
        return ((values == target) & counted).sum() / counted.sum().clamp(min=1)
    near = (values - target).abs() <= 1e-5 * target.abs().amax()
    return near.float().mean()


def by_position(prediction: Tensor, one: Alignment, loss_name: str | None) -> Tensor | None:
    """The prediction as (samples, positions, outputs), or positions first; None if not in step with the targets."""
    lead = one.target.shape[:2]
    dim = class_dim(prediction, one.target, loss_name)
    if dim is not None and dim != prediction.dim() - 1:
        prediction = prediction.movedim(dim, -1)
    if prediction.numel() % lead.numel() or prediction.numel() == 0:
        return None
    in_step = prediction.shape[:2] == lead or prediction.shape[0] == lead.numel()
    return prediction.reshape(*lead, -1) if in_step else None
