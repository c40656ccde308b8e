"""The result as Markdown that GitHub renders: for the summary of a step, a comment, an issue.

Names and sentences come from run files, so what Markdown, HTML, mentions and references to issues would make of them
is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ..findings import Baseline, Finding, Result, RunResult, Severity, Verdict
from ..wording import capitalized, count, listed, number, percent, plain, sentence, step_range, visible
from .style import Style
from .words import STATES, absent, change_words, how_it_went, missing, state_words, states_of, summary, symptoms

NAMES = 8
"""Names of tensors that a finding tells; the report has all."""

_SIGNS: dict[Verdict, str] = {"pass": "✅", "fail": "❌", "not-judged": "⚪"}
_VERDICTS: dict[Verdict, str] = {"pass": "✅ Pass", "fail": "❌ Fail", "not-judged": "⚪ Not judged"}
_SEVERITIES: dict[Severity, str] = {"error": "🔴 error", "warning": "🟠 warning", "note": "🔵 note"}

_SPECIAL = re.compile(r"[\\`*_\[\]~|]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "<span>$</span>"}
_ENTITY = re.compile(r"[&<>$]")
_REFERENCE = re.compile(r"([@#])(?=\w)")
_BLOCK = re.compile(r"^(\d+)([.)])|^([-+=#])")


def render(result: Result, _style: Style) -> str:
    """The verdict, a table of the runs where there are several, and a section for each run."""
    title = f"{_SIGNS[result.verdict]} glideslope: {result.verdict.replace('-', ' ')}"
    blocks = [f"## {title}", f"{escaped(summary(result))}."]
    if len(result.runs) > 1:
        blocks.append(_runs(result.runs))
    for run in result.runs:
        blocks += _run(run)
    return plain("\n\n".join(blocks)) + "\n"


def escaped(text: str) -> str:
    """The text on one line, as the same text in rendered Markdown, in a table too."""
    line = _SPECIAL.sub(r"\\\g<0>", visible(text).strip())
    line = _BLOCK.sub(lambda match: f"{match[1]}\\{match[2]}" if match[1] else f"\\{match[3]}", line)
    line = _ENTITY.sub(lambda match: _ENTITIES[match[0]], line)
    return _REFERENCE.sub(r"\1<!-- -->", line)


def code(name: str) -> str:
    """A name in the type of code."""
    return f"`{name}`" if re.fullmatch(r"[\w./\-]+", name, re.ASCII) else f"<code>{escaped(name)}</code>"


def _runs(runs: Iterable[RunResult]) -> str:
    rows = [
        (_VERDICTS[run.verdict], code(run.run), _first(run), count(len(run.findings)), escaped(how_it_went(run)))
        for run in runs
    ]
    return _table(("", "Run", "First finding", "Findings", "Training"), rows)


def _first(run: RunResult) -> str:
    if not run.findings:
        return escaped(run.reason)
    first = run.findings[0]
    return f"{_SEVERITIES[first.severity]} {code(first.code)} {escaped(sentence(first.name))}"


def _run(run: RunResult) -> Iterator[str]:
    yield f"### {code(run.run)}"
    if run.status == "unreadable":
        yield f"**{_VERDICTS[run.verdict]}.** {escaped(' '.join(run.problems))}"
        return
    why = f" {escaped(capitalized(run.reason))}." if run.reason else ""
    yield f"**{_VERDICTS[run.verdict]}.**{why} {escaped(capitalized(how_it_went(run)))}."
    if run.problems:
        problems = [f"> - {escaped(problem)}" for problem in run.problems]
        yield "\n".join(["> [!WARNING]", "> Missing from the recording:", ">", *problems])
    if run.findings:
        rows = [row for finding in run.findings for row in _rows(finding)]
        yield _table(("", "Rule", "Where", "What was found"), rows)
    for finding in run.findings:
        yield from _finding(finding)
    if run.baseline:
        yield from _against(run.baseline)
    if run.detectors:
        yield _folded(f"Rules: {states_of(run)}", _states(run))


def _rows(finding: Finding) -> Iterator[tuple[str, ...]]:
    yield _row(finding, "")
    for item in symptoms(finding):
        yield _row(item, "↳ ")


def _row(finding: Finding, mark: str) -> tuple[str, ...]:
    rule = f"{mark}{code(finding.code)} {escaped(sentence(finding.name))}"
    where = ", ".join(_where(finding))
    return _SEVERITIES[finding.severity], rule, where, escaped(finding.message)


def _where(finding: Finding) -> Iterator[str]:
    """The steps, and whether the baseline has it too."""
    if steps := step_range(finding.first_step, finding.last_step):
        yield steps
    if finding.change:
        yield f"**{escaped(change_words(finding))}**"


def _against(baseline: Baseline) -> Iterator[str]:
    """What the baseline had and the run has not, and where the baseline is no measure."""
    for words, items in absent(baseline):
        yield f"#### {capitalized(words)}, found in {code(baseline.run)}"
        yield "\n".join(f"- {escaped(missing(item))}" for item in items)
    if baseline.unjudged:
        codes = ", ".join(code(name) for name in baseline.unjudged)
        yield f"Could not judge {code(baseline.run)}, so that what they find is new: {codes}"


def _finding(finding: Finding) -> Iterator[str]:
    yield f"#### {code(finding.code)} {escaped(sentence(finding.name))}"
    yield escaped(finding.message)
    yield "; ".join(_measured(finding))
    if finding.advice:
        yield "**What to try**"
        yield "\n".join(_numbered(finding.advice))
    if finding.causes:
        yield "**Likely causes, in order**"
        yield "\n".join(_numbered(finding.causes))
    evidence = [f"- for it: {escaped(line)}" for line in finding.evidence.supporting]
    evidence += [f"- against it: {escaped(line)}" for line in finding.evidence.opposing]
    if evidence:
        yield _folded("Evidence", "\n".join(evidence))


def _measured(finding: Finding) -> Iterator[str]:
    unit = f" {escaped(finding.unit)}" if finding.unit else ""
    if finding.value is not None:
        against = "" if finding.threshold is None else f", threshold {number(finding.threshold)}{unit}"
        yield f"Value {number(finding.value)}{unit}{against}"
    yield f"{percent(finding.confidence)} confident"
    if finding.tensors:
        shown = [code(name) for name in finding.tensors]
        yield f"in {listed(shown, NAMES)}"


def _states(run: RunResult) -> str:
    """The rules that could not judge, with their reasons; the others by name."""
    rows = [
        (f"{code(item.code)} {escaped(sentence(item.name))}", state_words(item.state), escaped(item.reason))
        for item in sorted(run.detectors, key=lambda item: item.state != "failed")
        if not item.judged
    ]
    rest = (
        (state, [code(item.code) for item in run.detectors if item.judged and item.state == state]) for state in STATES
    )
    lines = [f"{capitalized(state)}: {', '.join(codes)}" for state, codes in rest if codes]
    return "\n\n".join([*lines, *([_table(("Rule", "State", "Why"), rows)] if rows else [])])


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{escaped(title)}</summary>\n\n{body}\n\n</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _numbered(lines: Iterable[str]) -> list[str]:
    return [f"{place}. {escaped(line)}" for place, line in enumerate(lines, 1)]
