"""Everything that a comparison tells, put together from the runs and their judgements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..findings import SEVERITIES, RunResult
from ..precedence import tree
from ..wording import count, listed, number, plural
from .measures import Measure, Series, measures
from .names import short_names
from .outcomes import Goal, Outcome, goal, outcome, ranking
from .overlays import MOST
from .partings import Separation, first_words, separations
from .settings import COURSE, SURROUNDINGS, Difference, differences, is_seed
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
            _sameness(runs, parted) if same else _statements(runs, names, differing, parted, drawn_names, by, outcomes)
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


def _sameness(runs: Sequence[Run], parted: Sequence[Separation]) -> Iterator[str]:
    if len({run.manifest.run_id for run in runs}) == 1:
        yield f"No difference: it is the same run {'twice' if len(runs) == 2 else 'each time'}."
        return
    yield "No difference: set up alike, and judged alike."
    if parted:
        yield f"All {plural(len(parted), 'instrument')} that could be compared read the same, to the last digit."


def _statements(
    runs: Sequence[Run],
    names: Sequence[str],
    differing: Sequence[Difference],
    parted: Sequence[Separation],
    drawn: Sequence[str],
    by: Goal | None,
    outcomes: Sequence[Outcome] | None,
) -> Iterator[str]:
    """What to know first: what was changed, where it shows, what came of it, and what makes that doubtful."""
    changed = [item for item in differing if item.group != SURROUNDINGS]
    changed = [item for item in changed if not is_seed((item.group, item.name))] or changed
    changed = list({(item.name, item.values): item for item in reversed(changed)}.values())[::-1]
    if any(item.name == "lr" for item in changed):
        changed = [item for item in changed if item.name != COURSE]
    if changed:
        told = [f"{item.name} ({_values(item)})" for item in changed[:3]]
        more = f" and {plural(len(changed) - 3, 'other setting')}" if len(changed) > 3 else ""
        yield f"They differ in {', '.join(told) + more if more else listed(told)}."
    else:
        yield "They were set up alike, as far as it was recorded."
    yield from first_words(parted, drawn)
    if by and outcomes:
        yield from _best(names, by, outcomes)
    yield from _doubts(runs, differing)


def _values(item: Difference) -> str:
    values = list(dict.fromkeys(item.values))
    return listed([value if len(value) < 40 else f"{value[:38]}…" for value in values], 4)


def _best(names: Sequence[str], by: Goal, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Which run did best, or that errors forbid to say."""
    order = ranking(outcomes, by)
    first, last = outcomes[order[0]], outcomes[order[-1]]
    if first.value is None:
        return
    alike = [names[i] for i in order if outcomes[i].value == first.value]
    without = sum(item.value is None for item in outcomes)
    tail = f"; the worst {number(last.value)}" if not without else f"; {plural(without, 'run')} without a finite value"
    verb = "reaches" if len(alike) == 1 else "reach"
    yield (
        f"{listed(alike)} {verb} the {by}, {number(first.value)}{tail}."
        if by.name
        else (f"{listed(alike)} {'has' if len(alike) == 1 else 'have'} the lowest {by}, {number(first.value)}{tail}.")
    )


def _doubts(runs: Sequence[Run], differing: Sequence[Difference]) -> Iterator[str]:
    if any(is_seed((item.group, item.name)) for item in differing):
        yield "Their seeds differ too: early differences may be owed to that alone."
    if len({run.manifest.loss.type if run.manifest.loss else "" for run in runs}) > 1:
        yield "Their losses are of different kinds: the values do not compare."
    steps = [run.step_count for run in runs]
    if max(steps) > 1.1 * min(steps):
        yield f"They are not equally long: {count(min(steps))} to {count(max(steps))} steps."
    if any(item.name == "batch size" for item in differing):
        yield "Their batches differ in size: a step of one is not as much data as a step of another."
