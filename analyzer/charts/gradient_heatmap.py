"""Gradient norms, layers by steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .base import Chart, Figure, Missing, Section
from .heatmap import layer_heatmap

if TYPE_CHECKING:
    from ..run import Run


class GradientHeatmap(Chart):
    """The gradient's norm in every tensor over the run."""

    name: ClassVar[str] = "gradient-heatmap"
    title: ClassVar[str] = "Gradient norm, layers by steps"
    section: ClassVar[Section] = "layers"

    def draw(self, run: Run) -> Figure | Missing:
        """A cell for each tensor and bin of steps."""
        return layer_heatmap(
            run,
            "grad_norm",
            title=self.title,
            quantity="gradient norm",
            reading=(
                "Tensors from the input (top) to the output (bottom). Rows that darken towards the top lose their "
                "gradient on the way back; columns that brighten throughout are moments when all gradients grew."
            ),
        )
