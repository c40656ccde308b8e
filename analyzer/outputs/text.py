"""The result for people at a terminal: the verdict, each finding with evidence and advice, and how the rules fared."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

from ..findings import SEVERITIES, Finding, Result, RunResult, State, Verdict
from ..precedence import tree
from ..wording import count, plain, plural, step_range, visible
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
    title = [_severity(finding, style), style.paint(f"{finding.code} {finding.name}", bold=True), where]
    yield "  " + "  ".join(part for part in title if part)
    yield from _item("", visible(finding.message), style, indent=4)
    yield from _list("for", finding.evidence.supporting, style)
    yield from _list("against", finding.evidence.opposing, style)
    yield from _list("likely causes", finding.causes, style)
    yield from _list("try", finding.advice, style)
    symptoms = [
        f"{item.severity} {item.code} {item.name}: {item.message}" for item in tree(finding) if item is not finding
    ]
    yield from _list("explains", symptoms, style)


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
    return f"{style.paint(word, color, bold=True)}: {counts} in {runs} (fails on {result.fail_on}){_unjudged(result)}"


def _unjudged(result: Result) -> str:
    """How many runs and rules could not judge, where some could not: what was not judged is not a pass."""
    runs = sum(run.verdict == "not-judged" for run in result.runs)
    states = [state.state for run in result.runs for state in run.detectors]
    silent = sum(state in ("not-applicable", "failed") for state in states)
    parts = [f"{count(silent)} of {plural(len(states), 'rule')} could not judge"] if silent else []
    if runs and len(result.runs) > 1:
        parts.insert(0, f"{plural(runs, 'run')} not judged")
    return f"; {', '.join(parts)}" if parts else ""
