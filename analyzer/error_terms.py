"""Where the error of a model comes from: from the level aimed at over training and validation to the test."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from .run import Run

SPLITS = {"train": "training", "valid": "validation", "test-valid": "validation on test data", "test": "test"}
"""The splits that levels come from, in the order of the decomposition."""

TERMS = {
    "train": "avoidable bias",
    "valid": "variance",
    "test-valid": "distribution shift",
    "test": "overfitting to validation",
}
"""What the way from the level before to that of a split is called."""


@dataclass(frozen=True, slots=True)
class Level:
    """The last value of a metric in a split, and the step at which it was logged; the target has no step."""

    split: str
    value: float
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """The way from one level to the next. `cost`: what it adds to the error, negative where it takes from it."""

    split: str
    start: float
    end: float
    cost: float


def levels(run: Run, metric: str, target: float) -> list[Level]:
    """The target and the last finite value of each split, in order."""
    logged = run.frame("metrics", "value").filter(pl.col("name") == metric)
    known = logged.filter(pl.col("value").is_finite() & pl.col("step").is_not_null())
    last = {row["split"]: row for row in known.iter_rows(named=True)}
    found = [Level(split, last[split]["value"], last[split]["step"]) for split in SPLITS if split in last]
    return [Level("target", target), *found]


def terms(reached: list[Level], *, less: bool) -> list[Term]:
    """The ways from each level to the next; `less`: whether less of the metric is better."""
    sign = 1.0 if less else -1.0
    return [
        Term(after.split, before.value, after.value, sign * (after.value - before.value))
        for before, after in pairwise(reached)
    ]


def largest(found: list[Term]) -> Term | None:
    """The term that adds most to the error; None if none does."""
    worst = max(found, key=lambda term: term.cost)
    return worst if worst.cost > 0 else None
