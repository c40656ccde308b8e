"""How long the updates are that the optimizer makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..absence import why_absent
from .base import Chart, Figure, Missing, Section
from .over_steps import Style, by_optimizer, over_steps

if TYPE_CHECKING:
    from ..run import Run


class UpdateSize(Chart):
    """Norm of each update, all tensors together."""

    name: ClassVar[str] = "update-size"
    title: ClassVar[str] = "Update size"
    section: ClassVar[Section] = "step-size"

    def draw(self, run: Run) -> Figure | Missing:
        """The norm of the update at the steps where it was measured."""
        if not run.has("steps", "update_norm"):
            return Missing(self.title, why_absent(run, "steps", "update_norm"))
        frame, optimizers = by_optimizer(run, "update_norm")
        return over_steps(
            run,
            frame,
            "value",
            title=self.title,
            reading="Norm of the update that the optimizer made. It follows the learning rate and the gradients.",
            style=Style(axis="norm", log=True),
            series=optimizers,
        )
