"""Several optimizers that take turns, as in adversarial training: neighbouring steps then belong to different losses.

One line through both would say nothing, so each optimizer gets a line, or a chart, of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ..run import Run


def by_optimizer(run: Run, column: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """A column of the table of steps as step, series and value; a series for each optimizer where several take turns.

    The second value names these series; it is empty where there is but one.
    """
    frame = run.frame("steps", "optimizer", column).drop_nulls(column)
    value = pl.col(column).cast(pl.Float64).alias("value")
    names = _names(run, frame)
    if not names:
        return frame.select("step", pl.lit(column).alias("series"), value), ()
    series = pl.col("optimizer").replace_strict(names, default="no optimizer", return_dtype=pl.String)
    return frame.select("step", series.alias("series"), value), tuple(names.values())


def turns(run: Run, frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The rows of each optimizer by its name, from the column `optimizer`; all under "" where there is but one."""
    names = _names(run, frame)
    if not names:
        return {"": frame}
    return {name: frame.filter(pl.col("optimizer") == position) for position, name in names.items()}


def _names(run: Run, frame: pl.DataFrame) -> dict[int, str]:
    """A name for each optimizer that made steps; none for a single one."""
    positions = frame["optimizer"].drop_nulls().unique().sort().to_list()
    if len(positions) < 2:
        return {}
    kinds = {group.optimizer: group.type for group in run.groups}
    return {i: f"optimizer {i}" + (f" ({kinds[i]})" if kinds.get(i) else "") for i in positions}
