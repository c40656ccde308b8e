"""The result for GitHub Actions: an annotation for each finding, and a summary of the step in Markdown.

A line `::error title=…::…` on stdout is a workflow command. An annotation stands for a finding with all that it
explains. What else the result says goes into the step's summary and into the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ..findings import SEVERITIES, Finding, Result, RunResult, Severity
from ..wording import plain, step_range, visible
from .markdown import render as render_markdown
from .style import Style
from .words import VERDICTS, change_words, level, silence, summary, symptoms

Level = Literal["error", "warning", "notice"]

SHOWN = 10
"""Annotations of each level that GitHub shows of a step; the rest stands in the log only."""
LONGEST = 4096
"""Characters of a message that the runner keeps."""
SUMMARY_BYTES = 1_000_000
"""GitHub drops the summary of a step that holds more than 1 MiB."""

_LEVELS: dict[Severity, Level] = {"error": "error", "warning": "warning", "note": "notice"}


def render(result: Result, _style: Style) -> str:
    """Workflow commands, the first cause first, and the verdict as the last line."""
    commands = [item for run in result.runs for item in _run(run, result)]
    lines = [_command(*command) for command in commands]
    closing = f"{VERDICTS[result.verdict]}: {summary(result)}"
    return plain("\n".join([*lines, closing, *_hidden([name for name, _, _ in commands])])) + "\n"


def step_summary(result: Result, style: Style) -> str:
    """What to append to the file that $GITHUB_STEP_SUMMARY names; what GitHub would drop is left out."""
    whole = render_markdown(result, style)
    content = whole.encode()
    if len(content) <= SUMMARY_BYTES:
        return whole
    kept = content[:SUMMARY_BYTES].decode(errors="ignore")
    end = kept.rfind("\n### ")
    return f"{kept[: end if end > 0 else None].rstrip()}\n\nThe other runs are left out: GitHub shows no more.\n"


def _hidden(levels: list[Level]) -> Iterator[str]:
    if any(levels.count(name) > SHOWN for name in _LEVELS.values()):
        yield f"GitHub shows the first {SHOWN} annotations of each kind; the summary of the step has all findings."


def _run(run: RunResult, result: Result) -> Iterator[tuple[Level, str, str]]:
    """Level, title and message of the annotations of a run."""
    name = visible(run.run)
    if why := silence(run):
        yield "error", f"{name} was not judged", visible(why)
    for state in run.detectors:
        if state.state == "failed":
            yield "error", f"{state.code} {state.name} failed to judge {name}", visible(state.reason)
    for finding in run.findings:
        where = step_range(finding.first_step, finding.last_step)
        title = [f"{finding.code} {visible(finding.name)} in {name}", where, change_words(finding)]
        yield _LEVELS[level(finding, result)], ", ".join(part for part in title if part), "\n".join(_message(finding))


def _message(finding: Finding) -> Iterator[str]:
    yield visible(finding.message)
    for position, advice in enumerate(finding.advice):
        yield ("Try: " if position == 0 else "Or: ") + visible(advice)
    for item in sorted(symptoms(finding), key=lambda item: SEVERITIES.index(item.severity)):
        words = (item.severity, item.code, visible(item.name), change_words(item))
        yield f"Explains {' '.join(word for word in words if word)}: {visible(item.message)}"


def _command(name: Level, title: str, message: str) -> str:
    """A workflow command. A message that is too long ends in an ellipsis."""
    short = message if len(message) <= LONGEST else f"{message[: LONGEST - 1]}…"
    return f"::{name} title={_property(title)}::{_data(short)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
