"""What to know of several runs first, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..wording import count, listed, number, plural
from .outcomes import Goal, Outcome, ranking
from .partings import Separation, first_words
from .settings import COURSE, SURROUNDINGS, Difference, is_seed

if TYPE_CHECKING:
    from ..run import Run


def sameness(runs: Sequence[Run], parted: Sequence[Separation]) -> Iterator[str]:
    """What is said of runs that differ in nothing."""
    if len({run.manifest.run_id for run in runs}) == 1:
        yield f"No difference: it is the same run {'twice' if len(runs) == 2 else 'each time'}."
        return
    yield "No difference: set up alike, and judged alike."
    if parted:
        yield f"All {plural(len(parted), 'instrument')} that could be compared read the same, to the last digit."


def statements(
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
