"""Sentences that several forms of a result share, so that no two of them tell it differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..baseline import changes
from ..findings import SEVERITIES, Baseline, Finding, Gone, Result, RunResult, Severity, State, Verdict, fails
from ..precedence import tree
from ..wording import count, listed, plural, visible

STATES: tuple[State, ...] = ("fired", "passed", "not-applicable", "failed")
"""The states of a rule, in the order in which they are told."""
VERDICTS: dict[Verdict, str] = {"pass": "PASS", "fail": "FAIL", "not-judged": "NOT JUDGED"}


def how_it_went(run: RunResult) -> str:
    """`500 steps, failed: OSError: disk`."""
    if run.status == "unreadable":
        return "could not be read"
    failure = f": {visible(run.failure)}" if run.failure else ""
    return f"{plural(run.steps, 'step')}, {run.status}{failure}"


def state_words(state: State) -> str:
    """`not applicable`."""
    return state.replace("-", " ")


def states_of(run: RunResult) -> str:
    """`1 fired, 30 passed`: how many rules are in each state."""
    counts = Counter(state.state for state in run.detectors)
    return ", ".join(f"{counts[state]} {state_words(state)}" for state in STATES if counts[state])


def symptoms(finding: Finding) -> Iterator[Finding]:
    """All that is folded under a finding."""
    return (item for item in tree(finding) if item is not finding)


def level(finding: Finding, result: Result) -> Severity:
    """How grave a finding is to the check: as the gravest that it explains; a note where none of them counts.

    Known findings do not count where only new ones do.
    """
    counting = [item.severity for item in tree(finding) if fails(item, "note", new_only=result.new_only)]
    return min(counting, key=SEVERITIES.index, default="note")


def change_words(finding: Finding) -> str:
    """`new`, `new in 4.weight` where it was known in other tensors, `known`, or nothing without a baseline."""
    some = finding.new_tensors if len(finding.new_tensors) < len(finding.tensors) else ()
    return (finding.change or "") + (f" in {visible(listed(some))}" if some else "")


def absent(baseline: Baseline) -> Iterator[tuple[str, list[Gone]]]:
    """What the baseline had and the run has not, under the words for it; no words where there is nothing."""
    gone = [item for item in baseline.gone if not item.reason]
    untold = [item for item in baseline.gone if item.reason]
    yield from ((words, items) for words, items in (("gone", gone), ("not judged this time", untold)) if items)


def silence(run: RunResult) -> str:
    """Why a run was not judged, as a sentence; "" for one that was, or where rules that crashed say it themselves."""
    if run.verdict != "not-judged" or any(state.state == "failed" for state in run.detectors):
        return ""
    return " ".join(run.problems) if run.status == "unreadable" else f"{run.reason}: this is not a pass."


def missing(item: Gone) -> str:
    """A finding of the baseline in a sentence, with the reason if it could not be looked for."""
    where = f" in {listed(item.tensors)}" if item.tensors else ""
    why = f" ({item.reason})" if item.reason else ""
    return f"{item.severity} {item.code} {item.name}{where}{why}: {item.message}"


def summary(result: Result) -> str:
    """The arithmetic behind the verdict over all runs: findings by severity, and what they explain."""
    roots = [finding for run in result.runs for finding in run.findings]
    found = Counter(finding.severity for finding in roots)
    folded = sum(1 for root in roots for _ in symptoms(root))
    parts = [plural(found[severity], severity) for severity in SEVERITIES]
    counts = ", ".join([*parts, plural(folded, "symptom")] if folded else parts)
    fail_on = f"fails on {result.fail_on}{', new findings only' if result.new_only else ''}"
    return f"{counts} in {plural(len(result.runs), 'run')} ({fail_on}){_unjudged(result)}{_compared(result)}"


def _compared(result: Result) -> str:
    """How many findings are new, known and gone, if there was a baseline."""
    compared = [run for run in result.runs if run.baseline]
    if not compared:
        return ""
    counts = Counter[str]()
    for run in compared:
        counts.update(changes(run))
    baselines = listed(list(dict.fromkeys(visible(run.baseline.run) for run in compared if run.baseline)))
    return f"; against {baselines}: " + ", ".join(f"{count(counts[word])} {word}" for word in ("new", "known", "gone"))


def _unjudged(result: Result) -> str:
    """How many runs and rules could not judge, where some could not: what was not judged is not a pass."""
    runs = sum(run.verdict == "not-judged" for run in result.runs)
    states = [state for run in result.runs for state in run.detectors]
    silent = sum(not state.judged for state in states)
    parts = [f"{count(silent)} of {plural(len(states), 'rule')} could not judge"] if silent else []
    if runs and len(result.runs) > 1:
        parts.insert(0, f"{plural(runs, 'run')} not judged")
    return f"; {', '.join(parts)}" if parts else ""
