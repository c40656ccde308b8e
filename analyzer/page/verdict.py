"""The verdict in words, for the head of a report and the rows of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..findings import SEVERITIES
from ..wording import capitalized, listed, plural, sentence, step_range

if TYPE_CHECKING:
    from ..findings import RunResult

WORDS = {"pass": "Pass", "fail": "Fail", "not-judged": "Not judged"}


@dataclass(frozen=True, slots=True)
class VerdictView:
    """`word` and `line` for people; `counts` of findings by severity, symptoms not counted; `states` of the rules."""

    kind: str
    word: str
    line: str
    counts: dict[str, int]
    states: dict[str, int]


def verdict_of(result: RunResult) -> VerdictView:
    """The verdict of a run's result."""
    counts: dict[str, int] = {
        severity: sum(finding.severity == severity for finding in result.findings) for severity in SEVERITIES
    }
    states = {
        state: sum(item.state == state for item in result.detectors) for state in ("passed", "not-applicable", "failed")
    }
    return VerdictView(result.verdict, WORDS[result.verdict], _line(result, states["passed"]), counts, states)


def _line(result: RunResult, passed: int) -> str:
    if result.findings:
        first = result.findings[0]
        where = step_range(first.first_step, first.last_step)
        return f"{sentence(first.name)}{f', {where}' if where else ''}"
    if result.verdict == "not-judged":
        return f"{capitalized(result.reason or 'the run was not judged')}: this is not a pass."
    return f"{plural(passed, 'rule')} judged this run, and none fired."


def counted(counts: dict[str, int]) -> str:
    """`1 error and 2 notes`; `no findings`."""
    return listed([plural(amount, severity) for severity, amount in counts.items() if amount]) or "no findings"
