"""A run against a baseline: matched by rule and layer, never by step; and what of it counts for the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.rules import finding, rule
from support.runs import write_run

from analyzer.baseline import against, changes
from analyzer.config import Rules, Settings, choose
from analyzer.engine import judge_run
from analyzer.findings import DetectorState, Finding, Gone, RunResult, Severity
from analyzer.run import Run, open_run


def result(*findings: Finding, run: str = "now", states: tuple[DetectorState, ...] | None = None) -> RunResult:
    codes = ("AAA001", "BBB001", "CCC001")
    return RunResult(
        run, "completed", 9, "pass", findings, states or tuple(DetectorState(code, "x", "passed") for code in codes)
    )


def marks(compared: RunResult) -> list[tuple[str, str | None, tuple[str, ...]]]:
    return [(item.code, item.change, item.new_tensors) for item in compared.findings]


def test_the_same_findings_at_other_steps_with_other_numbers_and_words_are_known() -> None:
    before = finding("AAA001", first_step=3, last_step=9, value=2.0, tensors=("a", "b"))
    now = finding("AAA001", "warning", 0.3, first_step=400, last_step=None, value=70.0, tensors=("b", "a"))
    compared = against(result(now), result(before, run="base"))
    assert marks(compared) == [("AAA001", "known", ())]
    assert compared.baseline is not None
    assert compared.baseline.gone == ()
    assert changes(compared) == {"new": 0, "known": 1, "gone": 0}


def test_a_run_against_itself_has_nothing_new_and_nothing_gone() -> None:
    findings = (finding("AAA001", explains=(finding("BBB001", tensors=("a",)),)), finding("CCC001", tensors=("x", "y")))
    assert changes(against(result(*findings), result(*findings))) == {"new": 0, "known": 3, "gone": 0}


def test_one_more_layer_is_news_and_is_named() -> None:
    before, now = finding("AAA001", tensors=("a", "b")), finding("AAA001", tensors=("b", "c"))
    compared = against(result(now), result(before))
    assert marks(compared) == [("AAA001", "new", ("c",))]
    assert compared.baseline is not None
    assert [(item.code, item.tensors) for item in compared.baseline.gone] == [("AAA001", ("a",))]


def test_layers_count_however_they_are_spread_over_findings() -> None:
    before = [finding("AAA001", tensors=("a",)), finding("AAA001", tensors=("b",))]
    compared = against(result(finding("AAA001", tensors=("a", "b"))), result(*before))
    assert changes(compared) == {"new": 0, "known": 1, "gone": 0}


def test_a_finding_on_the_whole_run_is_not_one_on_a_layer() -> None:
    compared = against(result(finding("AAA001", tensors=("a",))), result(finding("AAA001")))
    assert changes(compared) == {"new": 1, "known": 0, "gone": 1}


def test_folding_does_not_matter_to_what_is_known() -> None:
    cause, symptom = finding("AAA001"), finding("BBB001", tensors=("a",))
    folded = against(result(cause.explaining((symptom,))), result(symptom))
    assert marks(folded) == [("AAA001", "new", ())]
    assert folded.findings[0].explains[0].change == "known"
    compared = against(result(symptom), result(cause.explaining((symptom,))))
    assert compared.baseline is not None
    assert [item.code for item in compared.baseline.gone] == ["AAA001"]


def test_what_could_not_be_judged_this_time_is_not_gone() -> None:
    states = (DetectorState("AAA001", "x", "not-applicable", "too short"), DetectorState("BBB001", "y", "passed"))
    before = (finding("AAA001"), finding("BBB001", "note"), finding("CCC001"))
    compared = against(result(states=states), result(*before))
    assert compared.baseline is not None
    reasons = {item.code: item.reason for item in compared.baseline.gone}
    assert reasons == {"AAA001": "too short", "BBB001": "", "CCC001": "the rule was not applied"}
    assert changes(compared)["gone"] == 1
    assert compared.baseline.gone[1] == Gone("BBB001", "fault-bbb001", "note", "BBB001 fired")


def test_rules_that_could_not_judge_the_baseline_are_named() -> None:
    states = (DetectorState("AAA001", "x", "failed", "ValueError"), DetectorState("BBB001", "y", "passed"))
    compared = against(result(finding("AAA001")), result(states=states))
    assert compared.baseline is not None
    assert compared.baseline.unjudged == ("AAA001", "CCC001")
    assert marks(compared) == [("AAA001", "new", ())]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(write_run(tmp_path / "r", {"loss": [2.0, 1.0]}))


@pytest.mark.parametrize(
    ("found", "before", "verdict"),
    [
        ("error", ("a",), "pass"),
        ("error", ("b",), "fail"),
        ("error", (), "fail"),
        ("warning", ("b",), "pass"),
    ],
)
def test_only_new_findings_count_if_asked_for(run: Run, found: Severity, before: tuple[str, ...], verdict: str) -> None:
    rules = choose([rule("AAA001", [finding("AAA001", found, tensors=("a",))])], Settings())
    baseline = result(finding("AAA001", tensors=before))
    assert judge_run(run, _only_new(rules), baseline).verdict == verdict
    assert judge_run(run, rules, baseline).verdict == ("fail" if found == "error" else "pass")


def test_a_new_symptom_counts_though_its_cause_is_known(run: Run) -> None:
    cause = rule("AAA001", [finding("AAA001", "warning")], explains=("BBB001",))
    symptom = rule("BBB001", [finding("BBB001", "error")])
    judged = judge_run(run, _only_new(choose([cause, symptom], Settings())), result(finding("AAA001")))
    assert [item.code for item in judged.findings] == ["AAA001"]
    assert judged.verdict == "fail"


def test_known_findings_do_not_hide_that_a_rule_crashed(run: Run) -> None:
    rules = choose([rule("AAA001", [finding("AAA001")]), rule("BBB001", ValueError("odd"))], Settings())
    judged = judge_run(run, _only_new(rules), result(finding("AAA001")))
    assert (judged.verdict, judged.reason) == ("not-judged", "BBB001 failed to judge")


def _only_new(rules: Rules) -> Rules:
    return replace(rules, new_only=True)
