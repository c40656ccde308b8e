"""What follows from the times of the steps: how long the training paused between them, and how fast it went."""

from __future__ import annotations

import polars as pl

from recorder.schema import Column

from .derived_column import Derived, finite


def _period() -> pl.Expr:
    """Seconds to the start of the next step; null where that was not recorded, or the clock began anew (a resume)."""
    follows = pl.col("step").shift(-1) == pl.col("step") + 1
    period = pl.col("time").shift(-1) - pl.col("time")
    return pl.when(follows & (period > 0)).then(finite(period))


CLOCK = (
    Derived(
        Column("pause", "float64", "s", "from the end of the step to the start of the next: loading, evaluation"),
        ("time", "duration"),
        lambda: (_period() - pl.col("duration")).clip(lower_bound=0),
    ),
    Derived(
        Column(
            "throughput", "float64", "samples/s", "samples of a step, as last counted, over the time to the next step"
        ),
        ("time", "batch_size"),
        lambda: pl.col("batch_size").forward_fill() / _period(),
    ),
)
"""Derived columns of `steps`."""
