"""A run against a baseline: which findings are new, known and gone. Pure functions of two judgements.

Findings are matched by the rule's code and the layer, tensor by tensor, never by step: the same fault seldom strikes at
the same step twice. What a rule says of the whole run matches only what it says of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .findings import Baseline, Finding, Gone, RunResult
from .precedence import every

Place = tuple[str, str | None]
"""Where a rule fired: its code, and a tensor, or None for the run as a whole."""


def against(result: RunResult, baseline: RunResult) -> RunResult:
    """The same judgement with its findings marked new or known, and with what the baseline had besides.

    A finding is new if any of its places is: one more layer is news.
    """
    before = places(every(baseline.findings))
    return replace(
        result,
        findings=tuple(_marked(finding, before) for finding in result.findings),
        baseline=Baseline(
            run=baseline.run,
            verdict=baseline.verdict,
            gone=tuple(_gone(result, baseline)),
            unjudged=tuple(code for code in result.judged_by if code not in baseline.judged_by),
        ),
    )


def places(findings: Iterable[Finding]) -> frozenset[Place]:
    """Where the rules fired."""
    return frozenset(place for finding in findings for place in _places(finding))


def changes(result: RunResult) -> dict[str, int]:
    """How many findings, folded ones included, are new and known, and how many of the baseline's are gone."""
    marks = [finding.change for finding in every(result.findings)]
    gone = [item for item in result.baseline.gone if not item.reason] if result.baseline else []
    return {"new": marks.count("new"), "known": marks.count("known"), "gone": len(gone)}


def _places(finding: Finding) -> tuple[Place, ...]:
    return tuple((finding.code, tensor) for tensor in finding.tensors) or ((finding.code, None),)


def _marked(finding: Finding, before: frozenset[Place]) -> Finding:
    """The finding and those folded under it, each new or known."""
    fresh = [tensor for code, tensor in _places(finding) if (code, tensor) not in before]
    return replace(
        finding,
        change="new" if fresh else "known",
        new_tensors=tuple(tensor for tensor in fresh if tensor is not None),
        explains=tuple(_marked(symptom, before) for symptom in finding.explains),
    )


def _gone(result: RunResult, baseline: RunResult) -> Iterator[Gone]:
    """What the baseline had and this run has not, in the baseline's order."""
    now = places(every(result.findings))
    silent = {state.code: state.reason for state in result.detectors if not state.judged}
    ran = {state.code for state in result.detectors}
    for finding in every(baseline.findings):
        missing = [tensor for code, tensor in _places(finding) if (code, tensor) not in now]
        if missing:
            yield Gone(
                code=finding.code,
                name=finding.name,
                severity=finding.severity,
                message=finding.message,
                tensors=tuple(tensor for tensor in missing if tensor is not None),
                reason=silent.get(finding.code, "") if finding.code in ran else "the rule was not applied",
            )
