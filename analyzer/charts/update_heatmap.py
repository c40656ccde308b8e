"""Update ratios, layers by steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .base import Chart, Figure, Missing, Section
from .heatmap import layer_heatmap

if TYPE_CHECKING:
    from ..run import Run


class UpdateHeatmap(Chart):
    """The update's norm relative to the tensor's, in every tensor over the run."""

    name: ClassVar[str] = "update-heatmap"
    title: ClassVar[str] = "Update ratio, layers by steps"
    section: ClassVar[Section] = "layers"

    def draw(self, run: Run) -> Figure | Missing:
        """A cell for each tensor and bin of steps."""
        return layer_heatmap(
            run,
            "update_ratio",
            title=self.title,
            quantity="update norm / parameter norm",
            reading=(
                "How much each update changes each tensor, relative to its size. Near 1e\u22123 is usual for weights; "
                "a row that stands out learns much faster or slower than its neighbours. Tensors that start at zero "
                "show large ratios at first."
            ),
        )
