"""The loss: of each step's batch, and as logged for other splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from .base import Chart, Figure, Missing
from .metrics import LOSS, logged, with_steps_of
from .optimizers import by_optimizer
from .over_steps import LINES, Style, over_steps

if TYPE_CHECKING:
    from ..run import Run

BATCH = "each step's batch"


class Loss(Chart):
    """Training loss before each update, and the metric `loss` of every split that was logged."""

    name = "loss"
    title = "Loss"
    section = "learning"
    shows = ("steps.loss", "metrics.loss")

    def draw(self, run: Run) -> Figure | Missing:
        """The loss over all steps."""
        other = logged(run, LOSS)
        if not run.has("steps", "loss") and other.is_empty():
            return Missing(self.title, why_absent(run, "steps", "loss"))
        batch, optimizers = by_optimizer(run, "loss")
        batch = batch if optimizers else batch.with_columns(pl.lit(BATCH).alias("series"))
        frame = pl.concat([batch, other]).drop_nulls("value")
        names = tuple(frame["series"].unique(maintain_order=True).to_list()[:LINES])
        kind = run.manifest.loss.type if run.manifest.loss else ""
        return over_steps(
            run,
            frame.filter(pl.col("series").is_in(names)),
            "value",
            title=f"{self.title} ({kind})" if kind else self.title,
            reading=(
                "What was differentiated at each step, before its update. The batch's noise makes it jitter; the trend "
                "counts. A validation loss that turns up while this falls is overfitting."
            ),
            style=Style(log=True),
            series=names if len(names) > 1 else (),
            span=with_steps_of(run, frame),
            wide=True,
        )
