"""How the gradients of the samples scatter around the gradient of their batch.

Sufficient statistics for the norm test (Byrd et al. 2012), the inner-product and orthogonality tests (Bollapragada et
al. 2017), the gradient signal-to-noise ratio (Liu et al. 2020), early stopping (Mahsereci et al. 2017), CABS (Balles et
al. 2017) and the gradient noise scale (McCandlish et al. 2018); the analyzer derives them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..samplewise import ELEMENTS
from ..schema import LAYERS, STEPS
from ..second_moments import SecondMoments, second_moments
from ..step import Step
from .base import Instrument


class IndividualGradients(Instrument):
    """Variances of the gradient's entries over the samples, and projections of individual gradients on the gradient."""

    name = "individual-gradients"
    columns = (
        STEPS["grad_var"],
        STEPS["gsnr_sum"],
        STEPS["gsnr_count"],
        STEPS["inner_mean"],
        STEPS["inner_var"],
        STEPS["individual_count"],
        LAYERS["grad_var"],
        LAYERS["gsnr_sum"],
        LAYERS["gsnr_count"],
    )
    needs_layers = True

    def wants(self, index: int, probed: bool) -> bool:
        return probed and not self.context.capture.hopeless

    def after_update(self, step: Step) -> None:
        self.context.passes.ask("gradient", self.context.gradient)

    @torch.no_grad()
    def collect(self, step: Step) -> None:
        before, passes = self.context.values_at_calls(), self.context.passes
        if passes.usable is None:
            return
        if passes.samples > 1:
            self._put_moments(step, before)  # first: where it makes parts of samples, they are projected as well
        each = passes.answer("gradient", before)
        if each is None:
            return
        each = each if step.scale is None else each / step.scale
        step.put("individual_count", len(each))
        step.put("inner_mean", each.mean())
        if len(each) > 1:
            step.put("inner_var", each.var())

    def _put_moments(self, step: Step, before: list[Tensor]) -> None:
        """Scatter of each tensor; small tensors are measured together, since on them it is the operations that cost."""
        passes = self.context.passes
        found: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        waiting: list[SecondMoments] = []
        for moments in second_moments(passes, before):
            waiting.append(moments)
            if sum(m.square.numel() for m in waiting) > ELEMENTS:
                found |= self._measured(waiting, step.scale)
                waiting = []
        found |= self._measured(waiting, step.scale)
        if passes.usable is None or not found:
            return
        positions = tuple(sorted(found))
        for i, column in enumerate(("grad_var", "gsnr_sum", "gsnr_count")):
            step.put_tensors(column, [found[p][i] for p in positions], positions)

    def _measured(self, waiting: list[SecondMoments], scale: Tensor | None) -> dict[int, tuple[Tensor, Tensor, Tensor]]:
        gradient = self.context.gradient or []
        counted = [m for m in waiting if m.count > 1 and m.square.numel()]
        gradients = [gradient[m.position] for m in counted]
        rows = scatter(counted, gradients, self.context.passes.samples, scale) if counted else []
        return {m.position: row for m, row in zip(counted, rows, strict=True)}


def scatter(
    moments: Sequence[SecondMoments],
    gradients: Sequence[Tensor],
    samples: int,
    scale: Tensor | None = None,
    eps: float = 0.0,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Trace of the covariance of the individual gradients, sum of mean^2 / variance, and entries in it; 0-d, by tensor.

    The trace has ddof 1, the variances in the sum ddof 0. `gradients` are the means where all samples were used. With
    `eps`, which the reference implementation adds to the variances, every entry is in the sum.
    """
    factor = 1.0 if scale is None else 1 / scale
    square = torch.cat([(m.square * (samples**2 / m.count)).flatten() for m in moments]) * factor**2
    means = [
        g if m.total is None else m.total * (samples / m.count) * factor
        for m, g in zip(moments, gradients, strict=True)
    ]
    mean_square = torch.cat([mean.flatten() for mean in means]).square_()
    variance = (square - mean_square).clamp_(min=0.0)
    sizes = [m.square.numel() for m in moments]
    counts = torch.ones_like(square) if eps else _differs(square, variance, sizes)
    ratio = torch.where(counts > 0, mean_square / (variance + eps), 0.0)
    sums = [[part.sum() for part in value.split(sizes)] for value in (variance, ratio, counts)]
    traces = torch._foreach_mul(sums[0], [m.count / (m.count - 1) for m in moments])
    return list(zip(traces, *sums[1:], strict=True))


def _differs(square: Tensor, variance: Tensor, sizes: list[int]) -> Tensor:
    """1 for entries whose individual gradients differ by more than rounding, and are themselves more than rounding.

    Without variance are dead units; nothing but rounding is the gradient of a bias that cancels (attention's keys).
    """
    eps = torch.finfo(square.dtype).eps
    largest = [part.max().expand(len(part)) for part in square.split(sizes) if len(part)]
    floors = torch.cat([square[:0], *largest]) * (64 * eps) ** 2
    return ((variance > 4 * eps * square) & (square > floors)).to(square.dtype)
