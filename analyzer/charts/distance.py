"""How far the parameters have moved from where they began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from .base import Chart, Figure, Missing
from .over_steps import Style, over_steps

if TYPE_CHECKING:
    from ..run import Run


class Distance(Chart):
    """Distance of all parameters together from their first recorded values."""

    name = "distance"
    title = "Distance from initialisation"
    section = "step-size"
    shows = ("layers.distance",)

    def draw(self, run: Run) -> Figure | Missing:
        """The root of the summed squares over tensors, at probed steps."""
        if not run.has("layers", "distance"):
            return Missing(self.title, why_absent(run, "layers", "distance"))
        squares = pl.col("distance").cast(pl.Float64).pow(2).sum()
        known = run.frame("layers", "distance").lazy().filter(pl.col("distance").is_not_null())
        frame = known.group_by("step").agg(squares.sqrt()).sort("step").collect(engine="streaming")
        return over_steps(
            run,
            frame,
            "distance",
            title=self.title,
            reading=(
                "Euclidean distance of all parameters from their first values. It grows fast at first, then slower; "
                "flat from the start means that nothing is learned."
            ),
            style=Style(axis="norm"),
        )
