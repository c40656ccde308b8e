"""How long the steps took."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import polars as pl

from ..absence import why_absent
from ..wording import duration
from .base import Chart, Figure, Missing, Section
from .over_steps import Style, over_steps

if TYPE_CHECKING:
    from ..run import Run


class StepTime(Chart):
    """Duration of each step on the host's clock, recording included."""

    name: ClassVar[str] = "step-time"
    title: ClassVar[str] = "Step time"
    section: ClassVar[Section] = "performance"

    def draw(self, run: Run) -> Figure | Missing:
        """Milliseconds over the steps."""
        if not run.has("steps", "duration"):
            return Missing(self.title, why_absent(run, "steps", "duration"))
        frame = run.frame("steps", "duration", "probed").with_columns((1e3 * pl.col("duration")).alias("ms"))
        return over_steps(
            run,
            frame,
            "ms",
            title=self.title,
            reading="From the start of a step to the end of the optimizer's, on the host's clock, recording included.",
            style=Style(axis="ms", log=True, middle="median"),
            note=_probes(frame),
        )


def _probes(frame: pl.DataFrame) -> str:
    """What a probed step costs beside an ordinary one."""
    probed = frame.filter(pl.col("probed"))["duration"].median()
    plain = frame.filter(~pl.col("probed"))["duration"].median()
    if not isinstance(probed, float) or not isinstance(plain, float):
        return ""
    return f"Median {duration(plain)} for an ordinary step, {duration(probed)} for a probed one."
