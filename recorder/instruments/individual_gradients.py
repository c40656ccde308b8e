"""How the gradients of the samples scatter around the gradient of their batch.

Sufficient statistics for the norm test (Byrd et al. 2012), the inner-product and orthogonality tests (Bollapragada et
al. 2017), the gradient signal-to-noise ratio (Liu et al. 2020), early stopping (Mahsereci et al. 2017), CABS (Balles et
al. 2017) and the gradient noise scale (McCandlish et al. 2018); the analyzer derives them.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
        passes, gradient, ranks = self.context.passes, self.context.gradient or [], self.context.ranks
        found: dict[int, Scatter] = {}
        for moments in second_moments(passes, before):
            if moments.count > 1 and moments.square.numel():
                mean = gradient[moments.position]
                found[moments.position] = scatter(moments, mean, passes.samples, step.scale, ranks=ranks)
        if passes.usable is None or not found:
            return
        positions = tuple(sorted(found))
        for i, column in enumerate(("grad_var", "gsnr_sum", "gsnr_count")):
            step.put_tensors(column, [found[p][i] for p in positions], positions)


Scatter = tuple[Tensor, Tensor, Tensor]
"""Trace of the covariance of the individual gradients, sum of mean^2 / variance, and entries in that sum; 0-d."""


def scatter(
    moments: SecondMoments,
    gradient: Tensor,
    samples: int,
    scale: Tensor | None = None,
    eps: float = 0.0,
    ranks: int = 1,
) -> Scatter:
    """How the individual gradients of one tensor scatter. The trace has ddof 1, the variances in the sum ddof 0.

    `gradient`: their mean. With `eps`, which the reference implementation adds to the variances, every entry is in the
    sum; otherwise only those whose individual gradients differ by more than rounding, and by more than the rounding of
    the tensor's largest. Without variance are dead units; nothing but rounding is the gradient of a bias that cancels
    (attention's keys).

    Of several ranks the gradient is the mean over the samples of all: what they find around it, one degree of freedom
    being lost by all of them together, is to be averaged.
    """
    count, square = moments.count, moments.square
    mean = gradient if scale is None else gradient * scale
    mean_square = (mean if moments.total is None or ranks > 1 else moments.total * (samples / count)).square()
    part = count / samples**2  # of a square, in which those of the parts are given
    variance = torch.sub(square, mean_square, alpha=part)
    rounding = torch.finfo(square.dtype).eps
    floor = square.amax() * (64 * rounding) ** 2
    differs = torch.sub(variance, square, alpha=4 * rounding) > floor if not eps else torch.ones_like(square) > 0
    ratio = torch.where(differs, mean_square / (variance + eps * part), 0.0)
    total = variance.sum() if ranks > 1 else variance.sum().clamp_(min=0.0)
    trace = total * (samples**2 / count * (count * ranks) / (count * ranks - 1))
    return trace if scale is None else trace / scale**2, ratio.sum() * part, differs.sum().to(square.dtype)
