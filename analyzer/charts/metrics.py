"""The metrics that the training script logged, a chart for each name, a line for each split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from .base import Chart, Figure, Missing
from .binning import Span
from .over_steps import LINES, Style, over_steps, whole

if TYPE_CHECKING:
    from ..run import Run

LOSS = "loss"
"""The metric that the chart of the loss shows."""

MOST = 12
"""Metrics drawn, in the order in which they were first logged."""


class Metrics(Chart):
    """Logged metrics by split; the loss has its own chart."""

    name = "metrics"
    title = "Metrics"
    section = "learning"
    shows = ("metrics.value",)

    def draw(self, run: Run) -> Figure | Missing:
        """The first metric."""
        return next(self.figures(run))

    def figures(self, run: Run) -> Iterator[Figure | Missing]:
        """A figure for each metric's name."""
        names = run.frame("metrics", "value")["name"].fill_null("").unique(maintain_order=True).to_list()
        others = [name for name in names if name != LOSS]
        if not others:
            yield Missing(
                self.title, f"The training script logged no metric{' beside the loss' if names else ''} (recorder.log)."
            )
        left_out = f"{len(others) - MOST} more metrics are not drawn." if len(others) > MOST else ""
        for name in others[:MOST]:
            yield _figure(run, name, left_out)


def logged(run: Run, name: str) -> pl.DataFrame:
    """A metric as rows step, series (its split) and value."""
    frame = run.frame("metrics", "value").filter(pl.col("name").fill_null("") == name)
    return frame.select("step", pl.col("split").fill_null("no split").alias("series"), "value")


def with_steps_of(run: Run, frame: pl.DataFrame) -> Span:
    """The run's steps, and those of logged values that lie beyond them."""
    steps, span = frame["step"].drop_nulls(), whole(run)
    if steps.is_empty():
        return span
    first, last = int(steps.min() or 0), int(steps.max() or 0)  # type: ignore[arg-type]
    return Span(first, last) if run.step_count == 0 else Span(min(span.first, first), max(span.last, last))


def _figure(run: Run, name: str, note: str) -> Figure:
    frame = logged(run, name)
    splits = tuple(frame["series"].unique(maintain_order=True).to_list()[:LINES])
    return over_steps(
        run,
        frame.filter(pl.col("series").is_in(splits)),
        "value",
        title=f"{name or 'unnamed metric'} ({', '.join(splits)})",
        reading="As the training script logged it.",
        style=Style(log=True),
        series=splits if len(splits) > 1 else (),
        note=note,
        span=with_steps_of(run, frame),
    )
