"""The result as JUnit XML, by the schema that Jenkins and GitLab read: a suite for each run, a case for each rule.

A case fails if its rule found something that fails the check, wherever that is folded; what does not, being milder or
known, is told by a case that passes. A rule that is not applicable is skipped, one that crashed is an error. A run that
was not judged has a case of its own that says why, as an error: nothing judged is not a pass.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..findings import DetectorState, Finding, Result, RunResult, fails
from ..precedence import every
from ..wording import plain, visible, xml_text
from .style import Style
from .text import finding_lines
from .words import absent, missing, silence

COUNTED = ("tests", "failures", "errors", "skipped")
_TAGS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def render(result: Result, _style: Style) -> str:
    """The document in ASCII, other characters as references, so that no locale can spoil it."""
    suites = [_suite(run, result) for run in result.runs]
    totals = {name: str(sum(int(suite.get(name, 0)) for suite in suites)) for name in COUNTED}
    root = ET.Element("testsuites", {"name": result.tool} | totals)
    root.extend(suites)
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return written.decode("ascii") + "\n"


def _suite(run: RunResult, result: Result) -> ET.Element:
    found = defaultdict(list)
    for finding in every(run.findings):
        found[finding.code].append(finding)
    cases = [_case(run, state, found, result) for state in run.detectors]
    if why := silence(run):
        cases.insert(0, _unjudged(run, why))
    counts = {name: sum(case.find(tag) is not None for case in cases) for name, tag in _TAGS.items()}
    numbers = {name: str(amount) for name, amount in ({"tests": len(cases)} | counts).items()}
    suite = ET.Element("testsuite", {"name": _line(run.run)} | numbers | _NO_TIME)
    suite.extend(cases)
    if run.baseline and run.baseline.gone:
        lines = [f"{words}: {visible(missing(item))}" for words, items in absent(run.baseline) for item in items]
        _told(suite, "system-out", lines)
    if run.problems:
        _told(suite, "system-err", [visible(problem) for problem in run.problems])
    return suite


_NO_TIME = {"time": "0"}
"""Rules are not timed, but there are readers that insist on a time."""


def _new_case(run: RunResult, name: str) -> ET.Element:
    return ET.Element("testcase", {"classname": _line(run.run), "name": _line(name)} | _NO_TIME)


def _case(run: RunResult, state: DetectorState, found: Mapping[str, Iterable[Finding]], result: Result) -> ET.Element:
    case = _new_case(run, f"{state.code} {state.name}")
    if state.state == "not-applicable":
        ET.SubElement(case, "skipped", {"message": _line(state.reason)})
    elif state.state == "failed":
        kind, _, _ = state.reason.partition(":")
        ET.SubElement(case, "error", {"message": _line(state.reason), "type": _line(kind)})
    elif state.state == "fired":
        _fired(case, list(found.get(state.code, ())), result)
    return case


def _fired(case: ET.Element, findings: list[Finding], result: Result) -> None:
    """The failure, if a finding fails the check, and beside it what the others say."""
    grave = [item for item in findings if fails(item, result.fail_on, new_only=result.new_only)]
    mild = [item for item in findings if item not in grave]
    if grave:
        message = " ".join(item.message for item in grave)
        _told(case, "failure", _lines(grave), {"message": _line(message), "type": grave[0].severity})
    if mild:
        _told(case, "system-out", _lines(mild))


def _unjudged(run: RunResult, why: str) -> ET.Element:
    case = _new_case(run, "judged at all")
    ET.SubElement(case, "error", {"message": _line(why), "type": "not-judged"})
    return case


def _lines(findings: Iterable[Finding]) -> list[str]:
    return [line.removeprefix("  ") for finding in findings for line in finding_lines(finding, Style())]


def _told(parent: ET.Element, tag: str, lines: Iterable[str], attributes: Mapping[str, str] | None = None) -> None:
    ET.SubElement(parent, tag, dict(attributes or {})).text = xml_text(plain("\n".join(lines)))


def _line(text: str) -> str:
    """The text as an attribute: one line without what XML forbids."""
    return xml_text(plain(visible(text)))
