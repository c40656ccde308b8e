"""When something holds for long: intervals that are entered and left with hysteresis."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of steps, both ends included, and how many probed steps in it violated the rule."""

    first_step: int
    last_step: int
    violations: int
    probes: int

    @property
    def share(self) -> float:
        """Share of the probes within the span that violated."""
        return self.violations / self.probes


def firing_spans(steps: pl.Series, violated: pl.Series, enter: int = 4, leave: int = 1, of: int = 5) -> list[Span]:
    """Where at least `enter` of the last `of` probes violated, until at most `leave` of them do.

    A span begins at the first violation that made it so, and ends with the last one. A series shorter than `of` is
    judged as a whole, in proportion. Single outliers neither begin nor end a span.
    """
    of = min(of, steps.len())
    if of == 0:
        return []
    enter = min(enter, of)
    recent = pl.col("violated").cast(pl.Int64).rolling_sum(of, min_samples=1)
    state = pl.when(recent >= enter).then(True).when(recent <= leave).then(False)
    frame = (
        pl.DataFrame({"step": steps, "violated": violated.fill_null(value=False)})
        .with_columns(state.alias("state"))
        .with_columns(pl.col("state").forward_fill().fill_null(value=False).alias("on"))
        # A span is recognised late: the rows that led to it belong to it.
        .with_columns(pl.col("on").reverse().rolling_max(of, min_samples=1).reverse().cast(pl.Boolean).alias("near"))
        .with_columns((pl.col("near") != pl.col("near").shift(fill_value=False)).cum_sum().alias("group"))
    )
    hits = pl.col("step").filter("violated")
    inside = pl.col("step").is_between(hits.first(), hits.last())
    spans = (
        frame.filter("near")
        .group_by("group", maintain_order=True)
        .agg(
            hits.first().alias("first_step"),
            hits.last().alias("last_step"),
            pl.col("violated").sum().alias("violations"),
            inside.sum().alias("probes"),
        )
        .drop("group")
    )
    return [Span(**row) for row in spans.iter_rows(named=True)]
