"""A comparison as plain data for the templates: rows, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as counter
from itertools import groupby
from typing import TYPE_CHECKING

from altair.utils.schemapi import debug_mode

from ..charts.base import Figure, Missing
from ..charts.compared import Curves
from ..charts.compared.alphas import alpha_distributions
from ..charts.compared.outcome import against_outcome
from ..charts.compared.overlay import overlay
from ..charts.theme import DASHES, SERIES
from ..comparison.build import Comparison
from ..comparison.measures import SET
from ..comparison.next_values import Advice
from ..comparison.partings import Separation, between, when
from ..comparison.settings import Difference
from ..comparison.tuning import advice_words
from ..wording import capitalized, count, number, plural
from .card import ENDINGS
from .figures import Draw, Drawn, live
from .sparkline import Sparkline, loss_sparkline
from .verdict import VerdictView, verdict_of

if TYPE_CHECKING:
    from ..findings import RunResult
    from ..run import Run


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A row of the table of runs; `color` and `dash` are those of its curves, "" where it is not drawn."""

    name: str
    path: str
    href: str | None
    color: str
    dash: tuple[int, ...]
    verdict: VerdictView
    steps: str
    status: str
    outcome: str
    detail: str
    sparkline: Sparkline | None


@dataclass(frozen=True, slots=True)
class Grouped:
    """The differences of one group of settings."""

    title: str
    rows: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class PartingRow:
    """How one instrument relates the runs, as words."""

    name: str
    remark: str
    where: str
    values: str


@dataclass(frozen=True, slots=True)
class TuningRow:
    """A run with what was varied, and what it reached."""

    name: str
    values: tuple[str, ...]
    outcome: str
    last: str


@dataclass(frozen=True, slots=True)
class AdviceView:
    """What to try next for one hyperparameter, with its chart."""

    advice: Advice
    words: str
    chart: Drawn | Missing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """All that the page shows of a comparison."""

    comparison: Comparison
    runs: tuple[ComparedRun, ...]
    settings: tuple[Grouped, ...]
    partings: tuple[PartingRow, ...]
    together: tuple[PartingRow, ...]
    untold: tuple[str, ...]
    curves: tuple[Drawn | Missing, ...]
    alphas: tuple[Drawn | Missing, ...]
    outcome: str
    ranking: tuple[TuningRow, ...]
    advice: tuple[AdviceView, ...]

    @property
    def span(self) -> tuple[int, int]:
        """First and last step of any curve."""
        steps = [each["step"] for each in self.comparison.series.values() if each.height]
        return min((int(each[0]) for each in steps), default=0), max((int(each[-1]) for each in steps), default=0)


def comparison_view(
    made: Comparison,
    runs: Sequence[Run],
    results: Sequence[RunResult],
    hrefs: Sequence[str | None] = (),
    draw: Draw | None = live,
) -> ComparisonView:
    """The comparison ready for the page; `hrefs` lead to the reports of the runs. Without `draw`, it has no charts."""
    numbers = counter(1)

    def drawn(title: str, figure: Callable[[], Figure | None]) -> Drawn | Missing | None:
        return _guarded(title, figure, partial(draw, f"compared-{next(numbers)}")) if draw else None

    return ComparisonView(
        comparison=made,
        runs=tuple(_runs(made, runs, results, hrefs)),
        settings=tuple(Grouped(t, tuple(rows)) for t, rows in groupby(made.differences, lambda item: item.group)),
        partings=tuple(_parting_row(item, made) for item in made.separations if item.apart),
        together=tuple(
            _parting_row(item, made) for item in made.separations if item.parting.outcome in ("together", "equal")
        ),
        untold=tuple(item.measure.name for item in made.separations if item.parting.outcome == "too few"),
        curves=tuple(_curves(made, drawn)),
        alphas=tuple(_alphas(made, drawn)),
        outcome=capitalized(str(made.goal)) if made.goal else "",
        ranking=tuple(_ranking(made)),
        advice=tuple(_advice(made, drawn)),
    )


Shown = Callable[[str, Callable[[], Figure | None]], Drawn | Missing | None]
"""Draws what a title promises, or says why not."""


def _guarded(title: str, make: Callable[[], Figure | None], draw: Callable[[Figure], Drawn]) -> Drawn | Missing | None:
    """The figure drawn; a sentence in its place where that fails, never a lost page."""
    try:
        with debug_mode(False):  # each part of a chart would be validated against the schema of Vega-Lite
            figure = make()
            return None if figure is None else draw(figure)
    except Exception as error:
        return Missing(title, f"This chart could not be drawn ({type(error).__name__}: {error}); the rest stands.")


def _runs(
    made: Comparison, runs: Sequence[Run], results: Sequence[RunResult], hrefs: Sequence[str | None]
) -> Iterator[ComparedRun]:
    for i, (run, result) in enumerate(zip(runs, results, strict=True)):
        place = made.drawn.index(i) if i in made.drawn else None
        value, detail = _outcome_words(made, i)
        yield ComparedRun(
            name=made.names[i],
            path=run.path,
            href=hrefs[i] if hrefs else None,
            color="" if place is None else SERIES[place],
            dash=() if place is None else DASHES[place],
            verdict=verdict_of(result),
            steps=count(run.step_count),
            status=ENDINGS[run.status],
            outcome=value,
            detail=detail,
            sparkline=loss_sparkline(run),
        )


def _outcome_words(made: Comparison, position: int) -> tuple[str, str]:
    """What a run reached, and where."""
    if made.outcomes is None or made.goal is None:
        return "\u2013", ""
    found = made.outcomes[position]
    if found.value is None:
        return "not finite" if made.goal.name is None else "\u2013", ""
    where = f"at step {count(found.step)}" if made.goal.name and found.step is not None else ""
    return number(found.value), where


def _parting_row(item: Separation, made: Comparison) -> PartingRow:
    names = [made.names[i] for i in made.drawn]
    if not item.apart:
        same = item.parting.outcome == "equal"
        shared = plural(item.parting.steps, "step")
        return PartingRow(item.measure.name, "equal" if same else "within noise", f"over {shared}", "")
    remark = "set, not measured" if item.measure.name == SET else ""
    remark = "repetitions part in it too: it says nothing of the settings" if item.repeated else remark
    return PartingRow(item.measure.name, remark, when(item.parting)[3:], between(item, names))


def _curves(made: Comparison, shown: Shown) -> Iterator[Drawn | Missing]:
    """The key curves; those that separate the runs first, in the order of a training."""
    curves = Curves(made.drawn, tuple(made.names[i] for i in made.drawn))
    parted = {item.measure.name: item for item in made.separations}
    for measure in made.measures:
        if measure.key:
            figure = shown(measure.name, partial(overlay, measure, made.series, curves, parted.get(measure.name)))
            if figure is not None:
                yield figure


def _alphas(made: Comparison, shown: Shown) -> Iterator[Drawn | Missing]:
    curves = Curves(made.drawn, tuple(made.names[i] for i in made.drawn))
    for figure in alpha_distributions(made.series, curves):
        drawn = shown(figure.title, lambda f=figure: f)  # type: ignore[misc]
        if drawn is not None:
            yield drawn


def _ranking(made: Comparison) -> Iterator[TuningRow]:
    if made.tuning is None or made.outcomes is None:
        return
    for position, values in made.tuning.rows:
        found = made.outcomes[position]
        error = f" ± {number(found.error, 2)}" if found.error not in (float("inf"), 0.0) else ""
        yield TuningRow(
            made.names[position],
            values,
            number(found.value) + error if found.value is not None else "none",
            number(found.last),
        )


def _advice(made: Comparison, shown: Shown) -> Iterator[AdviceView]:
    if made.tuning is None or made.outcomes is None or made.goal is None:
        return
    costs = [item.value for item in made.outcomes]
    for advice in made.tuning.advice:
        values = made.tuning.numbers[advice.name]
        chart = shown(advice.name, partial(against_outcome, advice, values, costs, made.names, made.goal))
        yield AdviceView(advice, advice_words(advice), chart)
