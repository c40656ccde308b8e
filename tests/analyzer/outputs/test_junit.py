"""JUnit XML: well-formed whatever the names, of the usual schema, and in agreement with the verdict."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import golden
from support.pages import HOSTILE
from support.rules import finding, full_finding

from analyzer.engine import combine, unreadable
from analyzer.findings import DetectorState, Finding, Result, RunResult, Severity
from analyzer.outputs import named
from analyzer.outputs.style import Style

CHILDREN = {
    "testsuites": ["testsuite*"],
    "testsuite": ["properties?", "testcase*", "system-out?", "system-err?"],
    "testcase": ["skipped?", "error*", "failure*", "system-out*", "system-err*"],
}
"""What may stand in an element and how often, in this order, as the schema that Jenkins validates by has it."""
REQUIRED = {"testsuite": {"name", "tests"}, "testcase": {"name"}}
ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "disabled", "errors", "skipped"},
    "testsuite": {
        *(
            "name",
            "tests",
            "failures",
            "errors",
            "time",
            "disabled",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
        )
    },
    "testcase": {"name", "assertions", "time", "classname", "status"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
}


def assert_valid(element: ET.Element) -> None:
    """The element and all in it are as the schema wants them."""
    assert element.attrib.keys() >= REQUIRED.get(element.tag, set())
    assert element.attrib.keys() <= ALLOWED.get(element.tag, set())
    order = "".join(f"(<{child[:-1]}>){child[-1]}" for child in CHILDREN.get(element.tag, ()))
    assert re.fullmatch(order, "".join(f"<{child.tag}>" for child in element)), element.tag
    for child in element:
        assert_valid(child)


def junit(result: Result) -> ET.Element:
    written = named("junit").render(result, Style())
    assert written.isascii()
    root = ET.fromstring(written)
    assert_valid(root)
    return root


def suite_of(*findings: Finding, fail_on: Severity = "error", **states: str) -> ET.Element:
    """The suite of a run in which these were found; `states` have the reasons of rules that could not judge."""
    codes = dict.fromkeys(item.code for root in findings for item in (root, *root.explains))
    rules = [DetectorState(code, "fault", "fired") for code in codes]
    rules += [
        DetectorState(code, "fault", "failed" if why.endswith("!") else "not-applicable", why)
        for code, why in states.items()
    ]
    return junit(combine([RunResult("r", "completed", 9, "fail", findings, tuple(rules))], fail_on))[0]


def outcomes(suite: ET.Element) -> dict[str, list[str]]:
    """What stands in each case, by the code of its rule."""
    return {case.attrib["name"].split()[0]: [child.tag for child in case] for case in suite.iter("testcase")}


def counts(element: ET.Element) -> tuple[int, ...]:
    return tuple(int(element.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))


def test_the_example_is_valid_and_its_counts_add_up() -> None:
    root = junit(golden.EXAMPLE)
    assert counts(root) == tuple(map(sum, zip(*(counts(suite) for suite in root), strict=True)))
    for suite in root:
        tags = [[child.tag for child in case] for case in suite.iter("testcase")]
        wanted = (sum(tag in found for found in tags) for tag in ("failure", "error", "skipped"))
        assert counts(suite) == (len(tags), *wanted)


@pytest.mark.parametrize(
    ("fail_on", "failing"), [("error", ["AAA001"]), ("warning", ["AAA001", "BBB001"]), ("note", ["AAA001", "BBB001"])]
)
def test_what_fails_the_check_fails_its_case_wherever_it_is_folded(fail_on: Severity, failing: list[str]) -> None:
    found = outcomes(suite_of(full_finding(), fail_on=fail_on))
    assert found == {code: ["failure"] if code in failing else ["system-out"] for code in ("AAA001", "BBB001")}


def test_an_error_that_a_note_explains_fails_its_case() -> None:
    suite = suite_of(finding(severity="note", explains=(finding("BBB001", "error"),)))
    assert outcomes(suite) == {"AAA001": ["system-out"], "BBB001": ["failure"]}


def test_what_is_known_fails_no_case_where_only_new_findings_count() -> None:
    known = RunResult("r", "completed", 9, "pass", (replace(finding(), change="known"),), (CASE,))
    new = RunResult("r", "completed", 9, "fail", (replace(finding(), change="new"),), (CASE,))
    root = junit(combine([known, new], "error", new_only=True))
    assert [[child.tag for child in case] for case in root.iter("testcase")] == [["system-out"], ["failure"]]
    assert [suite.attrib["failures"] for suite in junit(combine([known], "error"))] == ["1"]


CASE = DetectorState("AAA001", "fault-aaa001", "fired")


def test_a_rule_that_found_a_grave_and_a_mild_thing_tells_both() -> None:
    suite = suite_of(finding(advice=("do this",)), finding(severity="note", advice=("or that",)))
    (case,) = suite.iter("testcase")
    assert [child.tag for child in case] == ["failure", "system-out"]
    assert "do this" in (case[0].text or "")
    assert "or that" in (case[1].text or "")


def test_rules_that_did_not_judge_are_skipped_or_errors_with_their_reasons() -> None:
    suite = suite_of(AAA001="no instrument recorded it", BBB001="KeyError: x!")
    assert outcomes(suite) == {"AAA001": ["skipped"], "BBB001": ["error"]}
    assert [child.attrib["message"] for case in suite for child in case] == [
        "no instrument recorded it",
        "KeyError: x!",
    ]


def test_a_run_that_nothing_judged_is_not_all_green() -> None:
    states = (DetectorState("AAA001", "a", "not-applicable", "too short"),)
    mute = RunResult("r", "completed", 9, "not-judged", (), states, reason="no rule could judge it")
    root = junit(combine([mute, unreadable("gone", "gone does not exist")], "error"))
    messages = [error.attrib["message"] for error in root.iter("error")]
    assert messages == ["no rule could judge it: this is not a pass.", "gone does not exist"]


@pytest.mark.parametrize("hostile", [*HOSTILE, "\x0b", "\ufffe", "]]>", "&lt;"])
def test_hostile_names_leave_the_document_well_formed(hostile: str) -> None:
    states = (DetectorState("AAA001", hostile, "fired"), DetectorState("BBB001", hostile, "failed", hostile))
    found = replace(finding(advice=(hostile,)), name=hostile)
    root = junit(combine([RunResult(hostile, "completed", 9, "fail", (found,), states, (hostile,))], "error"))
    assert [len(suite.findall("testcase")) for suite in root] == [2]


@given(st.text())
def test_any_text_can_be_told(text: str) -> None:
    root = junit(combine([RunResult(text, "completed", 9, "pass", (), (), (text,))], "error"))
    if text.isprintable():
        assert root[0].attrib["name"] == text.replace("\u202f", " ")
