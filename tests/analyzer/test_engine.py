"""States, verdicts and precedence, with rules made for the purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rules import finding, rule
from support.runs import write_run

from analyzer.config import Settings, choose
from analyzer.detectors.base import Detector
from analyzer.engine import combine, judge, judge_run, unreadable
from analyzer.findings import Finding, NotApplicable, RunResult
from analyzer.precedence import fold, tree
from analyzer.run import Run, open_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(write_run(tmp_path, {"loss": [2.0, 1.0]}))


def judged(run: Run, *detectors: Detector, **settings: object) -> RunResult:
    return judge_run(run, choose(detectors, Settings(**settings)))


def state(run: Run, detector: Detector) -> tuple[str, str]:
    only = judged(run, detector).detectors[0]
    return only.state, only.reason


def test_a_rule_passes_or_fires(run: Run) -> None:
    assert state(run, rule()) == ("passed", "")
    assert state(run, rule(found=[finding()])) == ("fired", "")


def test_a_rule_that_cannot_judge_says_why(run: Run) -> None:
    assert state(run, rule(found=NotApplicable("too short: 2 of 20 steps"))) == (
        "not-applicable",
        "too short: 2 of 20 steps",
    )


def test_a_rule_that_crashes_has_failed_and_the_others_still_judge(run: Run) -> None:
    result = judged(run, rule("AAA001", ZeroDivisionError("by zero")), rule("BBB001"))
    assert [(item.state, item.reason) for item in result.detectors] == [
        ("failed", "ZeroDivisionError: by zero"),
        ("passed", ""),
    ]


def test_missing_columns_are_named_with_the_reason(run: Run, tmp_path: Path) -> None:
    needs = rule(requires={"steps": ("loss", "alpha"), "layers": ("grad_norm",)}, found=[finding()])
    assert state(run, needs)[1].split("; ") == [
        'no instrument of this run recorded steps.loss_var (preset "economy")',
        'no instrument of this run recorded layers.grad_norm (preset "economy")',
    ]
    instruments = [{"name": "norms", "columns": [{"table": "layers", "column": "grad_norm"}]}]
    events = [{"kind": "not-measured", "detail": {"columns": ["steps.loss_var"], "reason": "compiled"}}]
    other = open_run(write_run(tmp_path / "b", {"loss": [1.0]}, events=events, manifest={"instruments": instruments}))
    assert state(other, needs)[1] == (
        'steps.loss_var was not measured (compiled); the instrument "norms" recorded no value of layers.grad_norm'
    )


def test_a_run_without_steps_is_not_judged(tmp_path: Path) -> None:
    result = judged(open_run(write_run(tmp_path)), rule(), rule("RUN001", [finding("RUN001")], about_training=False))
    assert result.detectors[0].reason == "the run recorded no step"
    assert result.detectors[1].state == "fired"
    assert judged(open_run(tmp_path), rule()).verdict == "not-judged"


@pytest.mark.parametrize(
    ("detectors", "fail_on", "verdict"),
    [
        ([rule()], "error", "pass"),
        ([rule(found=[finding(severity="warning")])], "error", "pass"),
        ([rule(found=[finding(severity="warning")])], "warning", "fail"),
        ([rule(found=[finding(severity="note")])], "note", "fail"),
        ([rule(found=[finding(severity="error")])], "warning", "fail"),
        ([], "error", "not-judged"),
        ([rule(found=NotApplicable("no"))], "error", "not-judged"),
        ([rule(about_training=False)], "error", "not-judged"),
        ([rule("AAA001"), rule("BBB001", found=ValueError("x"))], "error", "not-judged"),
        ([rule("AAA001"), rule("BBB001", found=NotApplicable("no"))], "error", "pass"),
        ([rule("AAA001", [finding()]), rule("BBB001", found=ValueError("x"))], "error", "fail"),
        ([rule("AAA001", [finding()], about_training=False)], "error", "fail"),
    ],
)
def test_verdicts(run: Run, detectors: list[Detector], fail_on: str, verdict: str) -> None:
    assert judged(run, *detectors, fail_on=fail_on).verdict == verdict


OBSTACLES = {
    "no rule at all": ([], {}, "no rule about the training is selected"),
    "only about the recording": ([rule("RUN001", about_training=False)], {}, "no rule about the training is selected"),
    "none applies": ([rule(found=NotApplicable("no"))], {}, "no rule about the training could judge"),
    "one crashed": ([rule("AAA001"), rule("BBB001", found=ValueError("x"))], {}, "BBB001 failed to judge"),
    "one required": (
        [rule("AAA001"), rule("BBB001", found=NotApplicable("no"))],
        {"require": ("BBB",)},
        "BBB001 must judge by the configuration, and could not",
    ),
}


@pytest.mark.parametrize(("detectors", "settings", "reason"), OBSTACLES.values(), ids=list(OBSTACLES))
def test_what_is_not_judged_says_why(run: Run, detectors: list[Detector], settings: Any, reason: str) -> None:
    result = judged(run, *detectors, **settings)
    assert result.verdict == "not-judged"
    assert reason in result.reason


def test_what_is_judged_has_no_such_reason(run: Run) -> None:
    assert judged(run, rule()).reason == ""
    assert judged(run, rule("AAA001", [finding()]), rule("BBB001", found=ValueError("x"))).reason == ""


def test_a_grave_symptom_fails_the_run_although_its_cause_is_mild(run: Run) -> None:
    cause = rule("AAA001", [finding("AAA001", "warning")], explains=("BBB001",))
    result = judged(run, cause, rule("BBB001", [finding("BBB001", "error")]))
    assert [item.code for item in result.findings] == ["AAA001"]
    assert result.verdict == "fail"


def test_a_required_rule_must_be_able_to_judge(run: Run) -> None:
    rules = (rule("AAA001"), rule("BBB001", found=NotApplicable("no")))
    assert judged(run, *rules).verdict == "pass"
    assert judged(run, *rules, require=("BBB",)).verdict == "not-judged"
    assert judged(run, *rules, require=("AAA001",)).verdict == "pass"


def test_the_verdict_over_runs() -> None:
    def of(*verdicts: str) -> str:
        results = [RunResult("r", "completed", 1, verdict, (), ()) for verdict in verdicts]
        return combine(results, "error").verdict

    assert of("pass", "pass") == "pass"
    assert of("pass", "not-judged") == "not-judged"
    assert of("not-judged", "fail", "pass") == "fail"
    assert of() == "not-judged"
    assert combine([unreadable("x", "gone")], "error").verdict == "not-judged"


def test_problems_of_a_run_are_part_of_the_result(tmp_path: Path) -> None:
    write_run(tmp_path, {"loss": [1.0, 2.0]}, shards=2)
    (tmp_path / "steps" / "a00-r000-000001.parquet").write_bytes(b"")
    result = judge([open_run(tmp_path)])
    assert "a00-r000-000001.parquet is torn" in result.document()["runs"][0]["problems"][0]


def test_a_configured_severity_replaces_that_of_the_rule(run: Run) -> None:
    found = [finding(severity="error"), finding(severity="note")]

    def severities(wanted: str) -> list[str]:
        result = judged(run, rule(found=found), rules={"AAA001": {"severity": wanted}})
        return [item.severity for item in result.findings]

    assert severities("warning") == ["warning", "note"]
    assert severities("note") == ["note", "note"]
    mild = rule(found=[finding(severity="warning")], severity="warning")
    assert judged(run, mild, rules={"AAA001": {"severity": "error"}}).verdict == "fail"


# Precedence


def shape(*findings, explains):
    """Codes as nested lists."""

    def nested(item):
        return [item.code, *(nested(symptom) for symptom in item.explains)] if item.explains else item.code

    return [nested(item) for item in fold(findings, explains)]


A, B, C, D = (finding(f"{letter}{letter}{letter}001") for letter in "ABCD")


def test_findings_are_ordered_by_severity_confidence_and_first_step() -> None:
    unordered = [
        finding("AAA001", "warning", 1.0),
        finding("BBB001", "error", 0.5, first_step=3),
        finding("CCC001", "error", 0.5, first_step=1),
        finding("DDD001", "error", 0.5),
        finding("EEE001", "error", 0.8),
    ]
    assert shape(*unordered, explains={}) == ["EEE001", "CCC001", "BBB001", "DDD001", "AAA001"]


def test_symptoms_are_folded_under_their_cause() -> None:
    assert shape(A, B, C, explains={"CCC001": ("AAA001",)}) == ["BBB001", ["CCC001", "AAA001"]]


def test_a_cause_comes_as_early_as_the_gravest_symptom_under_it() -> None:
    mild = finding("DDD001", "warning", 1.0)
    assert shape(A, mild, explains={"DDD001": ("AAA001",)}) == [["DDD001", "AAA001"]]
    assert shape(A, mild, C, explains={"DDD001": ("AAA001",)}) == [["DDD001", "AAA001"], "CCC001"]


def test_what_is_worth_a_note_accounts_for_no_error() -> None:
    light = finding("DDD001", "note", 1.0)
    assert shape(A, light, explains={"DDD001": ("AAA001",)}) == ["AAA001", "DDD001"]


def test_precedence_is_transitive_and_keeps_the_chain() -> None:
    chain = {"AAA001": ("BBB001",), "BBB001": ("CCC001",)}
    assert shape(C, B, A, explains=chain) == [["AAA001", ["BBB001", "CCC001"]]]
    assert shape(C, A, explains=chain) == [["AAA001", "CCC001"]]


def test_a_symptom_of_two_causes_is_folded_once() -> None:
    folded = fold((A, B, C), {"AAA001": ("CCC001",), "BBB001": ("CCC001",)})
    assert [[item.code for item in tree(root)] for root in folded] == [["AAA001", "CCC001"], ["BBB001"]]


def test_of_rules_that_explain_each_other_the_higher_ranked_is_the_cause() -> None:
    circle = {"AAA001": ("BBB001",), "BBB001": ("CCC001",), "CCC001": ("AAA001",)}
    sure = finding("BBB001", confidence=1.0)
    folded = fold((A, sure, C), circle)
    assert [item.code for item in folded] == ["BBB001"]
    assert sorted(item.code for item in tree(folded[0])) == ["AAA001", "BBB001", "CCC001"]


def test_findings_of_one_rule_do_not_explain_each_other() -> None:
    twins = (finding("AAA001", first_step=1), finding("AAA001", first_step=2))
    assert shape(*twins, explains={"AAA001": ("BBB001",), "BBB001": ("AAA001",)}) == ["AAA001", "AAA001"]


CODES = st.sampled_from([f"{letter}{letter}{letter}001" for letter in "ABCDE"])


@given(
    fired=st.lists(
        st.builds(finding, CODES, st.sampled_from(["error", "note"]), st.sampled_from([0.5, 0.9])), max_size=8
    ),
    explains=st.dictionaries(CODES, st.lists(CODES, max_size=4), max_size=5),
)
def test_whatever_explains_what_every_finding_occurs_once(fired: list[Finding], explains: dict[str, list[str]]) -> None:
    folded = [item for root in fold(fired, explains) for item in tree(root)]
    assert sorted(map(_key, folded)) == sorted(map(_key, fired))


def _key(item: Finding) -> tuple[str, str, float]:
    return item.code, item.severity, item.confidence
