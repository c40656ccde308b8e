"""What a judgement consists of: findings, the state of every detector, and the document all outputs are made from."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

DOCUMENT_FORMAT = 1
"""Version of the result document. It grows only on a breaking change."""

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the gravest to the mildest."""

State = Literal["passed", "fired", "not-applicable", "failed"]
Verdict = Literal["pass", "fail", "not-judged"]
Change = Literal["new", "known"]
"""How a finding stands to those of a baseline."""


class NotApplicable(Exception):
    """Raised by a detector that cannot judge a run; its message is the reason, for people."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Sentences with numbers, for and against the claim of a finding."""

    supporting: tuple[str, ...] = ()
    opposing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChartRef:
    """Where the evidence can be seen: a column of a table, for some tensors, with the threshold that decided.

    `reference` is the value the threshold stands for on that chart's axis; None where the chart has no such line.
    """

    table: str
    column: str
    tensors: tuple[str, ...] = ()
    reference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, with what decided it. `confidence` is a probability in [0, 1] that the named cause is the true one.

    Against a baseline, `change` says whether it had the same, and `new_tensors` of a new one which tensors it had not.
    """

    code: str
    name: str
    severity: Severity
    message: str
    confidence: float
    first_step: int | None = None
    last_step: int | None = None
    tensors: tuple[str, ...] = ()
    value: float | None = None
    threshold: float | None = None
    unit: str = ""
    evidence: Evidence = field(default_factory=Evidence)
    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    chart: ChartRef | None = None
    explains: tuple[Finding, ...] = ()
    change: Change | None = None
    new_tensors: tuple[str, ...] = ()

    def explaining(self, symptoms: tuple[Finding, ...]) -> Finding:
        """The same finding with the symptoms it accounts for folded under it."""
        return replace(self, explains=self.explains + symptoms)


def fails(finding: Finding, fail_on: Severity, *, new_only: bool) -> bool:
    """Whether a finding by itself fails a check: it is grave enough, and new where only new ones count."""
    grave = SEVERITIES.index(finding.severity) <= SEVERITIES.index(fail_on)
    return grave and not (new_only and finding.change == "known")


@dataclass(frozen=True, slots=True)
class DetectorState:
    """How one rule fared on one run. `reason` says why where it did not judge."""

    code: str
    name: str
    state: State
    reason: str = ""

    @property
    def judged(self) -> bool:
        """Whether the rule could tell: it found something, or that there is nothing."""
        return self.state in ("passed", "fired")


@dataclass(frozen=True, slots=True)
class Gone:
    """A finding of the baseline that the run does not have: at all, or not in these `tensors`.

    `reason` says why the rule could not judge the run; "" where it did, and the fault is gone indeed.
    """

    code: str
    name: str
    severity: Severity
    message: str
    tensors: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run was compared with. `unjudged`: rules that judged the run but not the baseline, by their codes."""

    run: str
    verdict: Verdict
    gone: tuple[Gone, ...] = ()
    unjudged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """The judgement of one run: its findings, the most probable root cause first, and the state of each detector.

    `status` is that of the run, or "unreadable"; `failure` is the exception that ended a failed one. `problems` says
    what could not be read, a sentence each. `reason` says why a run was not judged, as a clause; "" for one that was.
    `baseline` is what it was compared with, if it was.
    """

    run: str
    status: str
    steps: int
    verdict: Verdict
    findings: tuple[Finding, ...]
    detectors: tuple[DetectorState, ...]
    problems: tuple[str, ...] = ()
    failure: str | None = None
    reason: str = ""
    baseline: Baseline | None = None

    @property
    def judged_by(self) -> tuple[str, ...]:
        """The codes of the rules that could tell."""
        return tuple(state.code for state in self.detectors if state.judged)


@dataclass(frozen=True, slots=True)
class Result:
    """The whole judgement; every output is rendered from it, so that none can disagree with another.

    `new_only`: whether known findings were left out of account in the verdicts.
    """

    tool: str
    fail_on: Severity
    verdict: Verdict
    runs: tuple[RunResult, ...]
    new_only: bool = False

    def document(self) -> dict[str, Any]:
        """The result as JSON-ready data, by the schema that ships with the package."""
        content: dict[str, Any] = _plain(asdict(self))
        return {"format": DOCUMENT_FORMAT} | content


def _plain(value: Any) -> Any:
    """Tuples as lists, the evidence under the names of the document, non-finite numbers as null."""
    if isinstance(value, dict):
        if value.keys() == {"supporting", "opposing"}:
            return {"for": list(value["supporting"]), "against": list(value["opposing"])}
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
