"""The watchpoints that MindInsight recommends, with the values that it recommends."""

from __future__ import annotations

import polars as pl
from zoo.rivals.base import Rule, contender, entries, first, gradient_below, layer_share, nonfinite, ratio_beyond

from analyzer.run import Run


def zero_weights(run: Run) -> int | None:
    """A weight is all zeros at its start."""
    frame = entries(run, "param_norm")
    start = frame.filter((pl.col("step") == pl.col("step").min()) & (pl.col("dimensions") > 1))
    return first(start, pl.col("param_norm") == 0)


MINDINSIGHT = contender(
    (
        Rule("weight_initialization", ("init-zero-or-symmetric",), zero_weights),
        Rule("overflow", ("nonfinite",), nonfinite),
        Rule("gradient_vanishing", ("vanishing-gradients",), gradient_below(1e-9)),
        Rule("weight_change_too_large", ("rate-too-large", "update-outlier"), ratio_beyond(1.0)),
        Rule("tensor_all_zero", ("dead-units",), layer_share("dead_share", 0.999)),
    ),
    missing={"activation_range": "the values of the activations"},
)
