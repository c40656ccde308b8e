"""The result for people at a terminal: the verdict, each finding with evidence and advice, and how the rules fared."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from ..findings import Baseline, Finding, Result, RunResult, Verdict
from ..wording import plain, step_range, visible
from .style import Style
from .words import VERDICTS, absent, change_words, how_it_went, missing, state_words, states_of, summary, symptoms

_VERDICT_COLORS: dict[Verdict, str] = {"pass": "green", "fail": "red", "not-judged": "yellow"}
_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


def render(result: Result, style: Style) -> str:
    """The whole result as text; names come from run files, so control characters in them are shown, not obeyed."""
    lines = [line for run in result.runs for line in (*_run(run, style), "")]
    return plain("\n".join([*lines, f"{_verdict(result.verdict, style)}: {summary(result)}"])) + "\n"


def finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    """A finding with its evidence, causes, advice and the symptoms that it explains, indented by two."""
    where = step_range(finding.first_step, finding.last_step)
    title = [
        _severity(finding, style),
        style.paint(f"{finding.code} {finding.name}", bold=True),
        change_words(finding),
        where,
    ]
    yield "  " + "  ".join(part for part in title if part)
    yield from _item("", visible(finding.message), style, indent=4)
    yield from _list("for", finding.evidence.supporting, style)
    yield from _list("against", finding.evidence.opposing, style)
    yield from _list("likely causes", finding.causes, style)
    yield from _list("try", finding.advice, style)
    explained = [
        " ".join(part for part in (item.severity, item.code, item.name, change_words(item)) if part)
        + f": {item.message}"
        for item in symptoms(finding)
    ]
    yield from _list("explains", explained, style)


def _run(run: RunResult, style: Style) -> Iterator[str]:
    yield f"{_verdict(run.verdict, style)}  {style.paint(visible(run.run), bold=True)}  {how_it_went(run)}"
    if run.reason and run.status != "unreadable":
        yield from _item("", f"Not judged: {visible(run.reason)}.", style, indent=2)
    for problem in () if run.status == "unreadable" else run.problems:
        yield from _item("!", visible(problem), style, indent=2)
    for finding in run.findings:
        yield ""
        yield from finding_lines(finding, style)
    if run.baseline:
        yield from _against(run.baseline, style)
    if run.detectors:
        yield ""
        yield from _rules(run, style)


def _against(baseline: Baseline, style: Style) -> Iterator[str]:
    """What the baseline had and the run has not, and where the baseline is no measure."""
    for words, items in absent(baseline):
        yield ""
        yield f"  {style.paint(words, bold=True)}, found in {visible(baseline.run)}"
        for item in items:
            yield from _item("-", visible(missing(item)), style, indent=4)
    if baseline.unjudged:
        yield ""
        sentence = f"Could not judge {baseline.run}, so that what they find is new: {', '.join(baseline.unjudged)}."
        yield from _item("", visible(sentence), style, indent=2)


def _verdict(verdict: Verdict, style: Style) -> str:
    return style.paint(VERDICTS[verdict], _VERDICT_COLORS[verdict], bold=True)


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
    yield f"  rules: {states_of(run)}"
    for state in run.detectors:
        if not state.judged:
            sentence = f"{state.code} {state.name} {state_words(state.state)}: {visible(state.reason)}"
            yield from _item("-", sentence, style, indent=4)
