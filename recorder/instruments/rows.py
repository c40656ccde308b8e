"""Rows of each weight tensor: whether a gradient reaches them, and whether they differ at all.

A row is what one unit weighs its inputs with. A unit that is dead gets no gradient, whatever its activation is made of
(a module or a function); units that began alike, with alike weights above them, stay alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..context import Context
from ..schema import LAYERS
from ..step import Step
from .base import Instrument
from .norms import norms


class Rows(Instrument):
    """Share of the rows without a gradient, and how large the tensor would be if all its rows were the mean row."""

    name = "rows"
    columns = (LAYERS["silent_rows"], LAYERS["mean_row_norm"])
    needs_whole = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._matrices: dict[int, Tensor] = {}

    @torch.no_grad()
    def before_update(self, step: Step) -> None:
        if not self._matrices:  # lazy parameters have no shape before the first pass
            pairs = enumerate(self.context.tensors.parameters)
            self._matrices = {i: p for i, p in pairs if p.dim() > 1 and len(p) > 1 and p.is_floating_point()}
        matrices = {i: p.detach() for i, p in self._matrices.items() if not p.is_sparse and p.numel()}
        if matrices:
            means = norms([p.flatten(1).mean(0, dtype=_wide(p)) for p in matrices.values()])
            values = [mean * len(p) ** 0.5 for mean, p in zip(means, matrices.values(), strict=True)]
            step.put_tensors("mean_row_norm", values, tuple(matrices))
        gradients = {i: p.grad for i, p in self._matrices.items() if p.grad is not None and not p.grad.is_sparse}
        if gradients:
            step.put_tensors("silent_rows", [silent_rows(g) for g in gradients.values()], tuple(gradients))


def silent_rows(gradient: Tensor) -> Tensor:
    """Share of the rows (first dimension) of a gradient that are exactly zero, 0-d."""
    return (gradient.flatten(1) != 0).any(1).logical_not().float().mean()


def _wide(tensor: Tensor) -> torch.dtype:
    """Half precision would lose the mean of many rows."""
    return torch.float32 if tensor.element_size() < 4 else tensor.dtype
