"""Where the error of a model comes from: from the level aimed at over training and validation to the test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from ..validation import falls
from ..wording import count, listed, number, plural
from .base import Chart, Figure, Key, Missing, Numbers
from .marks import SHORT_NUMBER, layered
from .metrics import logged
from .theme import ALARM, MUTED, SERIES

if TYPE_CHECKING:
    from ..run import Run

SPLITS = {"train": "training", "valid": "validation", "test-valid": "validation on test data", "test": "test"}
"""The splits that levels come from, in the order of the decomposition."""

TERMS = {
    "train": "avoidable bias",
    "valid": "variance",
    "test-valid": "distribution shift",
    "test": "overfitting to validation",
}
"""What the way from the level before to that of a split is called."""

ADVICE = {
    "train": (
        "a larger model",
        "less regularisation",
        "error analysis",
        "a stronger architecture",
        "tuning the learning rate",
        "more features",
    ),
    "valid": (
        "more data",
        "normalisation layers",
        "augmentation",
        "regularisation (weight decay, dropout)",
        "error analysis",
        "tuning",
        "early stopping and a smaller model last",
    ),
    "test-valid": (
        "looking at the errors made on the shifted data",
        "collecting or synthesising such data",
        "domain adaptation",
    ),
    "test": ("collecting the validation data anew",),
}
"""What to try for a term, in this order."""

ROW_HEIGHT = 34


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


class ErrorDecomposition(Chart):
    """The terms of the error, for each metric that has a target and was logged for training and validation."""

    name = "error-decomposition"
    title = "Where the error comes from"
    section = "learning"

    def draw(self, run: Run) -> Figure | Missing:
        return next(self.figures(run))

    def figures(self, run: Run) -> Iterator[Figure | Missing]:
        targets = {name: value for name, value in run.manifest.target.items() if _is_number(value)}
        if not targets:
            yield Missing(self.title, "The run names no target (target={\u2026} of the recorder) to measure it by.")
        drawn = [figure for name, value in targets.items() if (figure := self._figure(run, name, float(value)))]
        yield from drawn
        if targets and not drawn:
            names = listed([f"\u201c{name}\u201d" for name in targets])
            yield Missing(
                self.title,
                f"The metric of the target ({names}) was not logged for the splits \u201ctrain\u201d and "
                "\u201cvalid\u201d, or its name does not tell whether more of it is better.",
            )

    def _figure(self, run: Run, metric: str, target: float) -> Figure | None:
        levels, less = _levels(run, metric, target), falls(metric)
        if less is None or not {"train", "valid"} <= {level.split for level in levels}:
            return None
        terms = _terms(levels, less=less)
        title = f"{self.title}: {metric}"
        description = f"{title}, with {_spoken(levels, terms)}"
        return Figure(
            title=title,
            chart=_chart(terms, target, f"{metric}, {'less' if less else 'more'} is better", description),
            reading=(
                "From the level aimed at to what was reached: on the training data (avoidable bias), on validation "
                "data (variance), and on test data. The longest bar is what to work on first."
            ),
            description=description,
            note=_advice(terms),
            keys=(Key(f"target, {number(target)}", ALARM, dash=(6, 4)),),
            numbers=_numbers(levels, terms),
            wide=True,
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _levels(run: Run, metric: str, target: float) -> list[Level]:
    """The target and the last finite value of each split, in order."""
    values = logged(run, metric).filter(pl.col("value").is_finite() & pl.col("step").is_not_null())
    last = {row["series"]: row for row in values.iter_rows(named=True)}
    found = [Level(split, last[split]["value"], last[split]["step"]) for split in SPLITS if split in last]
    return [Level("target", target), *found]


def _terms(levels: list[Level], *, less: bool) -> list[Term]:
    sign = 1.0 if less else -1.0
    return [
        Term(after.split, before.value, after.value, sign * (after.value - before.value))
        for before, after in pairwise(levels)
    ]


def _largest(terms: list[Term]) -> Term | None:
    worst = max(terms, key=lambda term: term.cost)
    return worst if worst.cost > 0 else None


def _advice(terms: list[Term]) -> str:
    worst = _largest(terms)
    if worst is None:
        return "No term adds to the error: the target is reached everywhere."
    tried = listed(ADVICE[worst.split], most=9)
    return f"Largest: {TERMS[worst.split]}, {number(worst.cost, 3)}. Try, in this order: {tried}."


def _spoken(levels: list[Level], terms: list[Term]) -> str:
    ways = listed([f"{TERMS[term.split]} {number(term.cost, 3)}" for term in terms], most=4)
    return f"target {number(levels[0].value)}: {ways} ({plural(len(levels) - 1, 'split')})."


def _numbers(levels: list[Level], terms: list[Term]) -> Numbers:
    added = {term.split: term for term in terms}
    rows = [("target", number(levels[0].value), "\u2013", "\u2013", "\u2013")]
    for level in levels[1:]:
        term = added[level.split]
        row = (SPLITS[level.split], number(level.value), count(level.step), number(term.cost, 3), TERMS[level.split])
        rows.append(row)
    return Numbers(("", "last value", "at step", "adds", "which is"), tuple(rows))


def _chart(terms: list[Term], target: float, title: str, description: str) -> alt.LayerChart:
    worst = _largest(terms)
    frame = pl.DataFrame(
        {
            "term": [TERMS[term.split] for term in terms],
            "start": [term.start for term in terms],
            "end": [term.end for term in terms],
            "label": [("+" if term.cost > 0 else "") + number(term.cost, 3) for term in terms],
            "color": [SERIES[1] if term is worst else SERIES[0] if term.cost > 0 else MUTED for term in terms],
            "right": [max(term.start, term.end) for term in terms],
        }
    )
    ends = [target, *(term.end for term in terms)]
    room = (max(ends) - min(ends)) or abs(target) or 1.0
    domain = [min(ends) - 0.06 * room, max(ends) + 0.22 * room]
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    axis = alt.Axis(title=title, grid=True, labelExpr=SHORT_NUMBER)
    order = [TERMS[term.split] for term in terms]
    labels = alt.Axis(title=None, labelLimit=190, minExtent=0, ticks=False, domain=False)
    base = alt.Chart(frame).encode(y=alt.Y("term:N", scale=alt.Scale(domain=order, padding=0.35), axis=labels))
    level = alt.Chart(pl.DataFrame({"start": [target]}))
    layers = [
        level.mark_rule(color=ALARM, strokeDash=[6, 4], aria=False).encode(x=alt.X("start:Q", scale=scale, axis=axis)),
        base.mark_bar(aria=False, cornerRadius=2).encode(
            x=alt.X("start:Q", scale=scale, axis=axis), x2=alt.X2("end:Q"), color=alt.Color("color:N", scale=None)
        ),
        base.mark_text(aria=False, align="left", dx=6, color=MUTED, fontSize=11).encode(x="right:Q", text="label:N"),
    ]
    return layered(layers, ROW_HEIGHT * len(terms) + 14, description)
