"""The terms of a model's error as bars, from the level aimed at to the test, and what to try against the largest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from ..error_terms import SPLITS, TERMS, Level, Term, largest, levels, terms
from ..validation import falls
from ..wording import count, listed, number, plural
from .base import Chart, Figure, Key, Missing, Numbers
from .marks import SHORT_NUMBER, layered
from .theme import ALARM, MUTED, SERIES

if TYPE_CHECKING:
    from ..run import Run

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
        reached, less = levels(run, metric, target), falls(metric)
        if less is None or not {"train", "valid"} <= {level.split for level in reached}:
            return None
        found = terms(reached, less=less)
        title = f"{self.title}: {metric}"
        description = f"{title}, with {_spoken(reached, found)}"
        return Figure(
            title=title,
            chart=_chart(found, target, f"{metric}, {'less' if less else 'more'} is better", description),
            reading=(
                "From the level aimed at to what was reached: on the training data (avoidable bias), on validation "
                "data (variance), and on test data. The longest bar is what to work on first."
            ),
            description=description,
            note=_advice(found),
            keys=(Key(f"target, {number(target)}", ALARM, dash=(6, 4)),),
            numbers=_numbers(reached, found),
            wide=True,
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _advice(found: list[Term]) -> str:
    worst = largest(found)
    if worst is None:
        return "No term adds to the error: the target is reached everywhere."
    tried = listed(ADVICE[worst.split], most=9)
    return f"Largest: {TERMS[worst.split]}, {number(worst.cost, 3)}. Try, in this order: {tried}."


def _spoken(reached: list[Level], found: list[Term]) -> str:
    ways = listed([f"{TERMS[term.split]} {number(term.cost, 3)}" for term in found], most=4)
    return f"target {number(reached[0].value)}: {ways} ({plural(len(reached) - 1, 'split')})."


def _numbers(reached: list[Level], found: list[Term]) -> Numbers:
    added = {term.split: term for term in found}
    rows = [("target", number(reached[0].value), "\u2013", "\u2013", "\u2013")]
    for level in reached[1:]:
        term = added[level.split]
        row = (SPLITS[level.split], number(level.value), count(level.step), number(term.cost, 3), TERMS[level.split])
        rows.append(row)
    return Numbers(("", "last value", "at step", "adds", "which is"), tuple(rows))


def _chart(found: list[Term], target: float, title: str, description: str) -> alt.LayerChart:
    worst = largest(found)
    frame = pl.DataFrame(
        {
            "term": [TERMS[term.split] for term in found],
            "start": [term.start for term in found],
            "end": [term.end for term in found],
            "label": [("+" if term.cost > 0 else "") + number(term.cost, 3) for term in found],
            "color": [SERIES[1] if term is worst else SERIES[0] if term.cost > 0 else MUTED for term in found],
            "right": [max(term.start, term.end) for term in found],
        }
    )
    ends = [target, *(term.end for term in found)]
    room = (max(ends) - min(ends)) or abs(target) or 1.0
    domain = [min(ends) - 0.06 * room, max(ends) + 0.22 * room]
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    axis = alt.Axis(title=title, grid=True, labelExpr=SHORT_NUMBER)
    order = [TERMS[term.split] for term in found]
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
    return layered(layers, ROW_HEIGHT * len(found) + 14, description)
