"""The learning rate of each parameter group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from ..wording import listed
from .base import Chart, Figure, Missing
from .over_steps import LINES, Style, over_steps

if TYPE_CHECKING:
    from ..run import Run


class LearningRate(Chart):
    """Learning rates over the steps, a line a group; groups that always share a rate share a line."""

    name = "learning-rate"
    title = "Learning rate"
    section = "hyperparameters"
    shows = ("steps.lr", "steps.lr_max")

    def draw(self, run: Run) -> Figure | Missing:
        """The rates as the optimizer had them at each step."""
        if not run.has("steps", "lr"):
            return Missing(self.title, why_absent(run, "steps", "lr"))
        frame = run.frame("steps", "lr")
        lines = _lines(frame, run)
        drawn = dict(list(lines.items())[:LINES])
        names = tuple(drawn) if len(drawn) > 1 else ()
        long = pl.concat(_line(frame, name, position) for name, position in drawn.items())
        return over_steps(
            run,
            long,
            "rate",
            title=self.title,
            reading="The rate of each parameter group as the optimizer used it, schedules included.",
            style=Style(log=True, stepped=True),
            series=names,
            note=f"{len(lines) - LINES} more groups are not drawn." if len(lines) > LINES else "",
        )


def _lines(frame: pl.DataFrame, run: Run) -> dict[str, int]:
    """Name of each line and the first group on it."""
    longest = frame["lr"].list.len().max()
    width = longest if isinstance(longest, int) else 0
    rates = frame.select(pl.col("lr").list.get(i, null_on_oob=True).alias(str(i)) for i in range(width))
    distinct: dict[tuple[int, ...], list[int]] = {}
    for i in range(width):
        twin = next((key for key in distinct if rates[str(key[0])].equals(rates[str(i)])), (i,))
        distinct.setdefault(twin, []).append(i)
    return {_name(members, run): members[0] for members in distinct.values()}


def _name(members: list[int], run: Run) -> str:
    positions = [str(i) for i in members]
    kind = f" ({run.groups[members[0]].type})" if members[0] < len(run.groups) else ""
    return f"{'groups' if len(members) > 1 else 'group'} {listed(positions, most=8)}{kind}"


def _line(frame: pl.DataFrame, name: str, position: int) -> pl.DataFrame:
    rate = pl.col("lr").list.get(position, null_on_oob=True).alias("rate")
    return frame.select("step", pl.lit(name).alias("series"), rate)
