"""How many samples each step saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..absence import why_absent
from .base import Chart, Figure, Missing, Section
from .over_steps import Style, over_steps

if TYPE_CHECKING:
    from ..run import Run


class BatchSize(Chart):
    """Samples in each step, summed over its micro-batches."""

    name: ClassVar[str] = "batch-size"
    title: ClassVar[str] = "Batch size"
    section: ClassVar[Section] = "hyperparameters"

    def draw(self, run: Run) -> Figure | Missing:
        """Samples over the steps."""
        if not run.has("steps", "batch_size"):
            return Missing(self.title, why_absent(run, "steps", "batch_size"))
        return over_steps(
            run,
            run.frame("steps", "batch_size"),
            "batch_size",
            title=self.title,
            reading=(
                "Samples in each step, all micro-batches together. "
                "A smaller last batch of each epoch shows as regular dips."
            ),
            style=Style(axis="samples", stepped=True),
        )
