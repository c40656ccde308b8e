"""Runs the rules over a run, folds symptoms under their causes, and says pass, fail or not judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from recorder import __version__

from .absence import why_not_applicable
from .baseline import against
from .calibration import calibrated
from .config import Rules, Settings, choose
from .detectors import DETECTORS
from .detectors.base import Detector
from .findings import SEVERITIES, DetectorState, Finding, NotApplicable, Result, RunResult, Severity, Verdict, fails
from .precedence import every, fold
from .run import Run
from .wording import listed

TOOL = f"glideslope {__version__}"
"""The program and its version, as the document names it."""


def judge(runs: Iterable[Run], rules: Rules | None = None) -> Result:
    """The judgement of several runs by the same rules: all of them, with their defaults, unless told otherwise."""
    rules = rules or choose(DETECTORS, Settings())
    return combine([judge_run(run, rules) for run in runs], rules.fail_on)


def combine(results: Sequence[RunResult], fail_on: Severity, *, new_only: bool = False) -> Result:
    """One result of several runs: a failure outweighs a run that could not be judged."""
    verdicts = {result.verdict for result in results}
    verdict: Verdict = (
        "fail" if "fail" in verdicts else "not-judged" if "not-judged" in verdicts or not results else "pass"
    )
    return Result(tool=TOOL, fail_on=fail_on, verdict=verdict, runs=tuple(results), new_only=new_only)


def judge_run(run: Run, rules: Rules, baseline: RunResult | None = None) -> RunResult:
    """The state of every rule on one run, and its findings in order of precedence, marked against a baseline."""
    judged = [_apply(detector, run) for detector in rules.detectors]
    states = tuple(state for state, _ in judged)
    found = [
        _regraded(finding, detector, rules.severities)
        for detector, (_, findings) in zip(rules.detectors, judged, strict=True)
        for finding in findings
    ]
    explains = {detector.code: detector.explains for detector in rules.detectors}
    result = RunResult(
        run=run.path,
        status=run.status,
        steps=run.step_count,
        verdict="pass",
        findings=tuple(_trusted(finding) for finding in fold(found, explains)),
        detectors=states,
        problems=run.problems,
        failure=run.failure,
    )
    return _decided(result if baseline is None else against(result, baseline), _obstacle(run, states, rules), rules)


def _decided(result: RunResult, obstacle: str, rules: Rules) -> RunResult:
    """The judgement with its verdict. `obstacle`: why the absence of findings is not a pass."""
    if _fails(result.findings, rules):
        return replace(result, verdict="fail")
    return replace(result, verdict="not-judged", reason=obstacle) if obstacle else result


def unreadable(run: str, reason: str) -> RunResult:
    """The judgement of a run that could not be opened."""
    return RunResult(run, "unreadable", 0, "not-judged", (), (), (reason,), reason="the run could not be read")


def _apply(detector: Detector, run: Run) -> tuple[DetectorState, tuple[Finding, ...]]:
    """The state of one rule on one run. Whatever a rule raises ends there: the other rules still judge."""
    code, name = detector.code, detector.name
    try:
        reason = "; ".join(dict.fromkeys(_unmet(detector, run)))
        if reason:
            return DetectorState(code, name, "not-applicable", reason), ()
        findings = tuple(detector.detect(run))
    except NotApplicable as reason:
        return DetectorState(code, name, "not-applicable", str(reason)), ()
    except (Exception, pl.exceptions.PanicException) as error:
        return DetectorState(code, name, "failed", f"{type(error).__name__}: {error}".rstrip(": ")), ()
    return DetectorState(code, name, "fired" if findings else "passed"), findings


def _trusted(finding: Finding) -> Finding:
    """The finding and its symptoms with measured confidences; what rules state by themselves has put them in order."""
    symptoms = tuple(_trusted(symptom) for symptom in finding.explains)
    return replace(finding, confidence=calibrated(finding.code, finding.confidence), explains=symptoms)


def _unmet(detector: Detector, run: Run) -> Iterator[str]:
    """What the rule needs and the run lacks, as reasons for people."""
    if run.step_count == 0 and detector.about_training:
        yield "the run recorded no step"
        return
    for table, columns in detector.requires.items():
        for column in columns:
            if not run.has(table, column):
                yield why_not_applicable(run, table, column)


def _regraded(finding: Finding, detector: Detector, severities: Mapping[str, Severity]) -> Finding:
    """The finding with the severity that a configuration gave its rule; what is milder by itself stays milder."""
    wanted = severities.get(detector.code)
    if wanted is None:
        return finding
    gravest = finding.severity == detector.severity
    return replace(finding, severity=wanted if gravest else max(wanted, finding.severity, key=SEVERITIES.index))


def _fails(findings: Iterable[Finding], rules: Rules) -> bool:
    """Whether any finding fails the check, folded ones alike: a cause that is a note excuses no error."""
    return any(fails(item, rules.fail_on, new_only=rules.new_only) for item in every(findings))


def _obstacle(run: Run, states: Sequence[DetectorState], rules: Rules) -> str:
    """Why the absence of findings is not a pass, as a clause; "" if it is one."""
    about_training = {detector.code for detector in rules.detectors if detector.about_training}
    judged = {state.code for state in states if state.judged}
    crashed = [state.code for state in states if state.state == "failed"]
    if crashed:
        return f"{listed(crashed)} failed to judge"
    if not about_training:
        return "no rule about the training is selected (select, ignore)"
    if missing := sorted(rules.required - judged):
        return f"{listed(missing)} must judge by the configuration, and could not"
    if not judged & about_training:
        return "the run recorded no step" if run.step_count == 0 else "no rule about the training could judge it"
    return ""
