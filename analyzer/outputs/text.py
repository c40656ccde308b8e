"""The result for people at a terminal: the verdict, each finding with evidence and advice, and how the rules fared."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

from ..baseline import changes
from ..findings import SEVERITIES, Baseline, Finding, Gone, Result, RunResult, State, Verdict
from ..precedence import tree
from ..wording import count, listed, plain, plural, step_range, visible
from .style import Style

_VERDICTS: dict[Verdict, tuple[str, str]] = {
    "pass": ("PASS", "green"),
    "fail": ("FAIL", "red"),
    "not-judged": ("NOT JUDGED", "yellow"),
}
_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}
_STATES: tuple[State, ...] = ("fired", "passed", "not-applicable", "failed")


def render(result: Result, style: Style) -> str:
    """The whole result as text; names come from run files, so control characters in them are shown, not obeyed."""
    lines = [line for run in result.runs for line in (*_run(run, style), "")]
    return plain("\n".join([*lines, _closing(result, style)])) + "\n"


def _run(run: RunResult, style: Style) -> Iterator[str]:
    word, color = _VERDICTS[run.verdict]
    yield f"{style.paint(word, color, bold=True)}  {style.paint(visible(run.run), bold=True)}  {_how_it_went(run)}"
    if run.reason and run.status != "unreadable":
        yield from _item("", f"Not judged: {visible(run.reason)}.", style, indent=2)
    for problem in () if run.status == "unreadable" else run.problems:
        yield from _item("!", visible(problem), style, indent=2)
    for finding in run.findings:
        yield ""
        yield from _finding(finding, style)
    if run.baseline:
        yield from _against(run.baseline, style)
    if run.detectors:
        yield ""
        yield from _rules(run, style)


def _how_it_went(run: RunResult) -> str:
    if run.status == "unreadable":
        return "could not be read"
    failure = f": {visible(run.failure)}" if run.failure else ""
    return f"{plural(run.steps, 'step')}, {run.status}{failure}"


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    where = step_range(finding.first_step, finding.last_step)
    title = [
        _severity(finding, style),
        style.paint(f"{finding.code} {finding.name}", bold=True),
        _change(finding),
        where,
    ]
    yield "  " + "  ".join(part for part in title if part)
    yield from _item("", visible(finding.message), style, indent=4)
    yield from _list("for", finding.evidence.supporting, style)
    yield from _list("against", finding.evidence.opposing, style)
    yield from _list("likely causes", finding.causes, style)
    yield from _list("try", finding.advice, style)
    symptoms = [
        " ".join(part for part in (item.severity, item.code, item.name, _change(item)) if part) + f": {item.message}"
        for item in tree(finding)
        if item is not finding
    ]
    yield from _list("explains", symptoms, style)


def _change(finding: Finding) -> str:
    """`new`, `new in 4.weight` where it was known in other tensors, `known`, or nothing without a baseline."""
    some = finding.new_tensors if len(finding.new_tensors) < len(finding.tensors) else ()
    return (finding.change or "") + (f" in {visible(listed(some))}" if some else "")


def _against(baseline: Baseline, style: Style) -> Iterator[str]:
    """What the baseline had and the run has not, and where the baseline is no measure."""
    for title, gone in (
        ("gone", [item for item in baseline.gone if not item.reason]),
        ("not judged this time", [item for item in baseline.gone if item.reason]),
    ):
        if gone:
            yield ""
            yield f"  {style.paint(title, bold=True)}, found in {visible(baseline.run)}"
        for item in gone:
            yield from _item("-", visible(_missing(item)), style, indent=4)
    if baseline.unjudged:
        yield ""
        words = f"Could not judge {baseline.run}, so that what they find is new: {', '.join(baseline.unjudged)}."
        yield from _item("", visible(words), style, indent=2)


def _missing(item: Gone) -> str:
    """A finding of the baseline in a sentence, with the reason if it could not be looked for."""
    where = f" in {listed(item.tensors)}" if item.tensors else ""
    why = f" ({item.reason})" if item.reason else ""
    return f"{item.severity} {item.code} {item.name}{where}{why}: {item.message}"


def _severity(finding: Finding, style: Style) -> str:
    return style.paint(finding.severity, _COLORS[finding.severity], bold=True)


def _list(title: str, sentences: Iterable[str], style: Style) -> Iterator[str]:
    """A titled list, nothing if it is empty."""
    for position, sentence in enumerate(sentences):
        if position == 0:
            yield f"    {style.paint(title + ':', dim=True)}"
        yield from _item("-", visible(sentence), style, indent=6)


def _item(bullet: str, sentence: str, style: Style, indent: int) -> list[str]:
    """A sentence wrapped to the width, its further lines under its first word."""
    first = " " * indent + (f"{bullet} " if bullet else "")
    wrapper = textwrap.TextWrapper(
        width=max(style.width, 40),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.wrap(sentence) or [first]


def _rules(run: RunResult, style: Style) -> Iterator[str]:
    counts = Counter(state.state for state in run.detectors)
    yield "  rules: " + ", ".join(f"{counts[state]} {_words(state)}" for state in _STATES if counts[state])
    for state in run.detectors:
        if state.state in ("not-applicable", "failed"):
            sentence = f"{state.code} {state.name} {_words(state.state)}: {visible(state.reason)}"
            yield from _item("-", sentence, style, indent=4)


def _words(state: State) -> str:
    return state.replace("-", " ")


def _closing(result: Result, style: Style) -> str:
    """The verdict over all runs, with the arithmetic behind it: findings by severity, and what they explain."""
    roots = [finding for run in result.runs for finding in run.findings]
    found = Counter(finding.severity for finding in roots)
    symptoms = sum(1 for root in roots for _ in tree(root)) - len(roots)
    parts = [plural(found[severity], severity) for severity in SEVERITIES]
    counts = ", ".join([*parts, plural(symptoms, "symptom")] if symptoms else parts)
    word, color = _VERDICTS[result.verdict]
    runs = plural(len(result.runs), "run")
    fails = f"fails on {result.fail_on}{', new findings only' if result.new_only else ''}"
    closing = f"{style.paint(word, color, bold=True)}: {counts} in {runs} ({fails}){_unjudged(result)}"
    return closing + _compared(result)


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
    states = [state.state for run in result.runs for state in run.detectors]
    silent = sum(state in ("not-applicable", "failed") for state in states)
    parts = [f"{count(silent)} of {plural(len(states), 'rule')} could not judge"] if silent else []
    if runs and len(result.runs) > 1:
        parts.insert(0, f"{plural(runs, 'run')} not judged")
    return f"; {', '.join(parts)}" if parts else ""
