"""Everything that a comparison tells, put together from the runs and their judgements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..charts.compared import MOST
from ..findings import SEVERITIES, RunResult
from ..precedence import tree
from .measures import Measure, Series, measures
from .names import short_names
from .outcomes import Goal, Outcome, goal, outcome, ranking
from .partings import Separation, separations
from .settings import SURROUNDINGS, Difference, differences
from .statements import sameness, statements
from .tuning import Tuning, groups, tuning

if TYPE_CHECKING:
    from ..run import Run


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule that fired in some of the runs: in each, the severity, or the state of the rule."""

    code: str
    name: str
    cells: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether it did not fare alike in all runs."""
        return len(set(self.cells)) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Several runs side by side. `drawn`: positions of those whose curves are drawn, at most as many as colours.

    `series` holds the measures of the drawn runs by name and position. `outcomes` and `tuning` are None where the runs
    have no goal in common.
    """

    names: tuple[str, ...]
    drawn: tuple[int, ...]
    differences: tuple[Difference, ...]
    measures: tuple[Measure, ...]
    series: dict[tuple[str, int], Series]
    separations: tuple[Separation, ...]
    goal: Goal | None
    outcomes: tuple[Outcome, ...] | None
    tuning: Tuning | None
    rules: tuple[RuleRow, ...]
    statements: tuple[str, ...]
    same: bool


def compare(runs: Sequence[Run], results: Sequence[RunResult]) -> Comparison:
    """Compares at least two runs; `results` are their judgements."""
    names = tuple(short_names([run.path for run in runs]))
    by = goal(runs)
    outcomes = tuple(outcome(run, by) for run in runs) if by else None
    drawn = _drawn(len(runs), ranking(outcomes, by) if outcomes and by else range(len(runs)))
    shown = [runs[i] for i in drawn]
    chosen = measures(shown)
    series = {(measure.name, i): measure.series(runs[i]) for measure in chosen for i in drawn}
    places = {(name, drawn.index(i)): each for (name, i), each in series.items()}
    parted = separations(chosen, places, groups(shown))
    differing, rules = differences(runs), tuple(_rules(results))
    same = not any(item.apart for item in parted) and not [d for d in differing if d.group != SURROUNDINGS]
    same = same and not any(row.differs for row in rules) and all(i.parting.outcome == "equal" for i in parted)
    drawn_names = [names[i] for i in drawn]
    return Comparison(
        names=names,
        drawn=drawn,
        differences=differing,
        measures=chosen,
        series=series,
        separations=parted,
        goal=by,
        outcomes=outcomes,
        tuning=tuning(runs, outcomes, by) if outcomes and by else None,
        rules=rules,
        statements=tuple(
            sameness(runs, parted) if same else statements(runs, names, differing, parted, drawn_names, by, outcomes)
        ),
        same=same,
    )


def _drawn(amount: int, ranked: Sequence[int]) -> tuple[int, ...]:
    """The best runs, in the order in which they were given."""
    return tuple(sorted(list(ranked)[:MOST])) if amount > MOST else tuple(range(amount))


def _rules(results: Sequence[RunResult]) -> Iterator[RuleRow]:
    """The rules that fired anywhere: those that tell the runs apart first."""
    fired: dict[str, str] = {}
    for result in results:
        for root in result.findings:
            fired.update({finding.code: finding.name for finding in tree(root)})
    rows = [RuleRow(code, name, tuple(_cell(result, code) for result in results)) for code, name in fired.items()]
    yield from sorted(rows, key=lambda row: (not row.differs, row.code))


def _cell(result: RunResult, code: str) -> str:
    severities = [item.severity for root in result.findings for item in tree(root) if item.code == code]
    if severities:
        return min(severities, key=SEVERITIES.index)
    return next((state.state for state in result.detectors if state.code == code), "not-applicable")
