"""What clipping, or anything else between the backward pass and the optimizer's step, did to the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from ..wording import percent
from .base import Chart, Figure, Missing
from .over_steps import Style, over_steps

if TYPE_CHECKING:
    from ..run import Run

SERIES = ("after the backward pass", "as the optimizer used it")


class Clipping(Chart):
    """The gradient's norm before and after it was changed."""

    name = "clipping"
    title = "Gradient norm before and after clipping"
    section = "gradients"
    shows = ("steps.grad_norm_clipped",)

    def draw(self, run: Run) -> Figure | Missing:
        """Both norms at all steps; where nothing changed the gradient they are equal."""
        if not run.has("steps", "grad_norm"):
            return Missing(self.title, why_absent(run, "steps", "grad_norm"))
        if not run.has("steps", "grad_norm_clipped"):
            return Missing(
                self.title,
                "Nothing changed the gradient between the backward pass and the optimizer's step: no clipping.",
            )
        frame = run.frame("steps", "grad_norm", "grad_norm_clipped")
        changed = frame["grad_norm_clipped"].count() / max(1, frame["grad_norm"].count())
        return over_steps(
            run,
            _both(frame),
            "norm",
            title=self.title,
            reading=(
                "The two lines part where the gradient was clipped. "
                "Clipping at most steps hides a learning rate that is too large."
            ),
            style=Style(axis="norm", log=True),
            series=SERIES,
            note=f"Changed at {percent(changed)} of the steps.",
        )


def _both(frame: pl.DataFrame) -> pl.DataFrame:
    """The two norms below each other: step, series, norm."""
    used = pl.coalesce("grad_norm_clipped", "grad_norm")
    before = frame.select("step", pl.lit(SERIES[0]).alias("series"), pl.col("grad_norm").alias("norm"))
    return pl.concat([before, frame.select("step", pl.lit(SERIES[1]).alias("series"), used.alias("norm"))])
