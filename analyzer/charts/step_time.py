"""How long the steps took, and the pauses between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from ..wording import duration
from .base import Chart, Figure, Missing
from .over_steps import Style, over_steps

if TYPE_CHECKING:
    from ..run import Run

LINES = {"within the step": "duration", "until the next": "pause"}


class StepTime(Chart):
    """Duration of each step on the host's clock, recording included, and of what followed before the next began."""

    name = "step-time"
    title = "Step time"
    section = "performance"
    shows = ("steps.duration", "steps.pause")

    def draw(self, run: Run) -> Figure | Missing:
        """Milliseconds over the steps."""
        if not run.has("steps", "duration"):
            return Missing(self.title, why_absent(run, "steps", "duration"))
        frame = run.frame("steps", "probed", *LINES.values())
        lines = {label: column for label, column in LINES.items() if frame[column].count()}
        return over_steps(
            run,
            pl.concat(_milliseconds(frame, label, column) for label, column in lines.items()),
            "ms",
            title=self.title,
            reading=(
                "On the host's clock: from the start of a step to the end of the optimizer's, recording included, and "
                "from there to the next, which is loading, logging and validation."
            ),
            style=Style(axis="ms", log=True, middle="median"),
            series=tuple(lines) if len(lines) > 1 else (),
            note=_probes(frame),
        )


def _milliseconds(frame: pl.DataFrame, label: str, column: str) -> pl.DataFrame:
    return frame.select("step", pl.lit(label).alias("series"), (1e3 * pl.col(column)).alias("ms")).drop_nulls("ms")


def _probes(frame: pl.DataFrame) -> str:
    """What a probed step costs beside an ordinary one."""
    probed = frame.filter(pl.col("probed"))["duration"].median()
    plain = frame.filter(~pl.col("probed"))["duration"].median()
    if not isinstance(probed, float) or not isinstance(plain, float):
        return ""
    return f"Median {duration(plain)} for an ordinary step, {duration(probed)} for a probed one."
