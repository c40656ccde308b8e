"""The norm of the gradient, all tensors together."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..absence import why_absent
from .base import Chart, Figure, Missing, Section
from .over_steps import Style, by_optimizer, over_steps

if TYPE_CHECKING:
    from ..run import Run


class GradientNorm(Chart):
    """Norm of the gradient after the backward pass, before any clipping."""

    name: ClassVar[str] = "gradient-norm"
    title: ClassVar[str] = "Gradient norm"
    section: ClassVar[Section] = "step-size"

    def draw(self, run: Run) -> Figure | Missing:
        """The norm over all steps."""
        if not run.has("steps", "grad_norm"):
            return Missing(self.title, why_absent(run, "steps", "grad_norm"))
        frame, optimizers = by_optimizer(run, "grad_norm")
        return over_steps(
            run,
            frame,
            "value",
            title=self.title,
            reading="Norm of the gradient of all parameters. Growth by orders of magnitude precedes a blow-up.",
            style=Style(axis="norm", log=True),
            series=optimizers,
        )
