"""How the gradients of the samples scatter around the gradient of their batch.

Sufficient statistics for the norm test (Byrd et al. 2012), the inner-product and orthogonality tests (Bollapragada et
al. 2017), the gradient signal-to-noise ratio (Liu et al. 2020), early stopping (Mahsereci et al. 2017), CABS (Balles et
al. 2017) and the gradient noise scale (McCandlish et al. 2018); the analyzer derives them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..context import Context
from ..schema import LAYERS, STEPS
from ..second_moments import Moments, second_moments
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

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._stale: list[Tensor | None] = []
        self._gradient: list[Tensor] = []

    def wants(self, index: int, probed: bool) -> bool:
        return probed and not self.context.capture.hopeless

    def before_backward(self, step: Step) -> None:
        """What `.grad` held already is not of this step's samples."""
        gradients = [p.grad for p in self.context.tensors.parameters]
        self._stale = [None if g is None else g.detach().clone() for g in gradients]

    @torch.no_grad()
    def after_backward(self, step: Step) -> None:
        """The gradient as the backward pass made it: what follows may clip it."""
        pairs = zip(self.context.tensors.parameters, self._stale, strict=True)
        self._gradient = [_gradient(p, stale, step.scale) for p, stale in pairs]

    @torch.no_grad()
    def after_update(self, step: Step) -> None:
        passes, gradient = self.context.passes, self._gradient
        before = self.context.before or [p.detach() for p in self.context.tensors.parameters]
        if passes.usable is None or not gradient:
            return
        self._put_moments(step, before)
        each = passes.projected(gradient, before)
        if each is None:
            return
        each = each if step.scale is None else each / step.scale
        step.put("individual_count", len(each))
        step.put("inner_mean", each.mean())
        if len(each) > 1:
            step.put("inner_var", each.var())

    def end(self, step: Step) -> None:
        self._stale, self._gradient = [], []

    def _put_moments(self, step: Step, before: list[Tensor]) -> None:
        passes, samples = self.context.passes, self.context.passes.samples
        found = {
            m.position: scatter(m, self._gradient[m.position], samples, step.scale)
            for m in second_moments(passes, before)
            if m.count > 1
        }
        if passes.usable is None or not found:
            return
        positions = tuple(sorted(found))
        for i, column in enumerate(("grad_var", "gsnr_sum", "gsnr_count")):
            step.put_tensors(column, [found[p][i] for p in positions], positions)


def _gradient(parameter: Tensor, stale: Tensor | None, scale: Tensor | None) -> Tensor:
    """The gradient that the step's passes gave a parameter, dense, in its precision; zeros where they gave none."""
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    gradient = parameter.grad.detach().clone() if stale is None else parameter.grad.detach() - stale
    dense = gradient.to_dense() if gradient.is_sparse else gradient
    return dense if scale is None else dense / scale


def scatter(
    moments: Moments, gradient: Tensor, samples: int, scale: Tensor | None = None, eps: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Trace of the covariance of the individual gradients, sum of mean^2 / variance, and entries in that sum; each 0-d.

    The trace has ddof 1, the variances in the sum ddof 0. `gradient` is the mean if all samples were used. With `eps`,
    which the reference implementation adds to the variances, every entry is in the sum.
    """
    count = moments.count
    square, mean = moments.square * (samples**2 / count), gradient
    if moments.total is not None:
        mean = moments.total * (samples / count)
    if scale is not None:
        square = square / scale.square()
        mean = mean if moments.total is None else mean / scale
    variance = (square - mean.square()).clamp_(min=0.0)
    counts = torch.ones_like(square, dtype=torch.bool) if eps else _differs(square, variance)
    ratio = torch.where(counts, mean.square() / (variance + eps), 0.0)
    return variance.sum() * (count / (count - 1)), ratio.sum(), counts.sum().to(square.dtype)


def _differs(square: Tensor, variance: Tensor) -> Tensor:
    """Entries whose individual gradients differ by more than rounding, and are themselves more than rounding.

    Without variance are dead units; nothing but rounding is the gradient of a bias that cancels (attention's keys).
    """
    eps = torch.finfo(square.dtype).eps
    return (variance > 4 * eps * square) & (square > (64 * eps) ** 2 * square.max())
