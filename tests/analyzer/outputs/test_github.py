"""Workflow commands: escaped as the runner unescapes them, as grave as what fails the check, no more than it keeps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import HOSTILE
from support.rules import finding

from analyzer.engine import combine, unreadable
from analyzer.findings import DetectorState, Finding, RunResult
from analyzer.outputs import named
from analyzer.outputs.github import LONGEST, SUMMARY_BYTES, step_summary
from analyzer.outputs.style import Style

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)")


def run_with(*findings: Finding, name: str = "r", states: tuple[DetectorState, ...] = (), **changes) -> RunResult:
    verdict = changes.pop("verdict", "fail")
    return RunResult(name, "completed", 9, verdict, findings, states, **changes)


def lines_of(*runs: RunResult) -> list[str]:
    return named("github").render(combine(list(runs), "error"), Style()).splitlines()


def unescaped(text: str) -> str:
    """What the runner makes of a message or a property."""
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def annotations(*runs: RunResult) -> list[tuple[str, str, str]]:
    """Level, title and message of each command, as the runner understands them."""
    found = [COMMAND.fullmatch(line) for line in lines_of(*runs)[:-1]]
    return [(match[1], unescaped(match[2]), unescaped(match[3])) for match in found if match]


@given(st.text(max_size=30), st.text(max_size=30))
def test_the_runner_reads_what_was_meant(name: str, message: str) -> None:
    lines = lines_of(run_with(replace(finding(), name="n", message=f"a{message}"), name=f"r{name}"))
    assert len(lines) == 2
    match = COMMAND.fullmatch(lines[0])
    assert match
    if (name + message).isprintable() and "%" not in name + message:
        assert (unescaped(match[2]), unescaped(match[3])) == (f"AAA001 n in r{name}", f"a{message}")


def test_percent_signs_line_ends_colons_and_commas_are_escaped_once() -> None:
    (line, _) = lines_of(run_with(replace(finding(advice=("50 % %0A",)), name="100%, a:b"), name="a:b,c"))
    assert line == "::error title=AAA001 100%25%2C a%3Ab in a%3Ab%2Cc::AAA001 fired%0ATry: 50 %25 %250A"


@pytest.mark.parametrize("hostile", [*HOSTILE, "x\n::error::owned", "x\r::stop-commands::y", "::set-output name=a::b"])
def test_hostile_names_are_no_commands_of_their_own(hostile: str) -> None:
    state = DetectorState("BBB001", hostile, "failed", hostile)
    lines = lines_of(run_with(replace(finding(advice=(hostile,)), name=hostile), name=hostile, states=(state,)))
    assert len(lines) == 3
    assert all(COMMAND.fullmatch(line) for line in lines[:-1])
    assert hostile not in lines[-1]


@pytest.mark.parametrize(("severity", "level"), [("error", "error"), ("warning", "warning"), ("note", "notice")])
def test_a_finding_is_as_grave_as_the_gravest_that_it_explains(severity, level) -> None:
    assert [item[0] for item in annotations(run_with(finding(severity=severity)))] == [level]
    cause = finding(severity="note", explains=(finding("BBB001", severity),))
    ((found, _, message),) = annotations(run_with(cause))
    assert found == level
    assert f"Explains {severity} BBB001 fault-bbb001: BBB001 fired" in message


def test_what_is_known_is_a_notice_where_only_new_findings_count() -> None:
    known, new = (replace(finding(), change=change) for change in ("known", "new"))
    runs = [run_with(known), run_with(new), run_with(replace(known, explains=(new,)))]
    lines = named("github").render(combine(runs, "error", new_only=True), Style()).splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["::notice", "::error", "::error"]
    assert "in r%2C known::" in lines[0]
    assert [item[0] for item in annotations(run_with(known))] == ["error"]


def test_nothing_is_said_of_a_run_that_passed_but_the_verdict() -> None:
    passed = run_with(verdict="pass", states=(DetectorState("AAA001", "a", "passed"),))
    assert lines_of(passed) == ["PASS: 0 errors, 0 warnings, 0 notes in 1 run (fails on error)"]


def test_what_was_not_judged_is_an_error_with_its_reason() -> None:
    crashed = DetectorState("BBB001", "b", "failed", "ValueError: odd")
    found = annotations(
        run_with(name="m", verdict="not-judged", reason="no rule could judge it"),
        run_with(name="c", verdict="not-judged", reason="BBB001 failed to judge", states=(crashed,)),
        unreadable("gone", "gone does not exist: look again."),
    )
    assert found == [
        ("error", "m was not judged", "no rule could judge it: this is not a pass."),
        ("error", "BBB001 b failed to judge c", "ValueError: odd"),
        ("error", "gone was not judged", "gone does not exist: look again."),
    ]


def test_a_message_is_no_longer_than_the_runner_keeps() -> None:
    ((_, _, message),) = annotations(run_with(finding(advice=("x" * 5000,))))
    assert len(message) == LONGEST
    assert message.endswith("x…")


def test_annotations_that_github_will_not_show_are_announced() -> None:
    assert len(lines_of(run_with(*[finding()] * 10))) == 11
    lines = lines_of(run_with(*[finding()] * 11))
    assert lines[-1].startswith("GitHub shows the first 10 annotations of each kind")


def test_the_summary_of_the_step_leaves_out_runs_that_github_would_drop_it_for() -> None:
    runs = [run_with(finding(advice=("ä" * 50_000,)), name=f"run{i}") for i in range(20)]
    cut = step_summary(combine(runs, "error"), Style())
    assert len(cut.encode()) < SUMMARY_BYTES + 100
    assert cut.endswith("ä\n\nThe other runs are left out: GitHub shows no more.\n")
    short = combine(runs[:2], "error")
    assert step_summary(short, Style()) == named("markdown").render(short, Style())
