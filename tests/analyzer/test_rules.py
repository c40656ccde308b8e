"""What rules say about themselves."""

from __future__ import annotations

import re
import tomllib

import pytest
from support.rules import Documented, rule

from analyzer import rules
from analyzer.config import Settings, choose
from analyzer.errors import ConfigError
from analyzer.outputs.style import Style

KNOWN = (Documented(), rule("GRD001"), rule("GRD002"))


def test_a_page_has_the_docstring_what_the_rule_needs_and_its_options() -> None:
    page = rules.page(Documented(), Style())
    assert page.startswith("DOC001 documented-fault (warning)\n\nSomething is wrong.\n")
    assert "\nWhat it does\nCompares.\n" in page
    assert "Needs: steps.loss, layers.grad_norm" in page
    assert "Explains: AAA001" in page


def test_the_options_of_a_page_are_a_configuration_that_changes_nothing() -> None:
    section = rules.page(Documented(), Style()).partition("[tool.")[2]
    options = tomllib.loads("[tool." + section)["tool"]["glideslope"]["rules"]
    assert options["DOC001"] == {"severity": "warning", "most": 3, "share": 0.5, "kinds": ["a", "b"]}
    assert choose([Documented()], Settings(rules=options)).detectors == (Documented(),)


def test_the_list_has_a_line_for_each_rule() -> None:
    lines = rules.listing(KNOWN).splitlines()
    assert lines[0] == "DOC001  warning  documented-fault  Something is wrong."
    assert len(lines) == len(KNOWN) + 2


@pytest.mark.parametrize(
    ("wanted", "codes"),
    [
        ("GRD001", ["GRD001"]),
        ("grd001", ["GRD001"]),
        ("documented-fault", ["DOC001"]),
        ("GRD", ["GRD001", "GRD002"]),
        ("Fault-grd", ["GRD001", "GRD002"]),
    ],
)
def test_rules_are_found_by_code_name_or_prefix(wanted: str, codes: list[str]) -> None:
    assert [item.code for item in rules.find(wanted, KNOWN)] == codes


@pytest.mark.parametrize(
    ("wanted", "instead"),
    [
        ("GRD009", "(GRD has GRD001 and GRD002)"),
        ("grd9", "(GRD has GRD001 and GRD002)"),
        ("GDR", '(did you mean "GRD"?)'),
        ("dokumented-fault", '(did you mean "documented-fault"?)'),
    ],
)
def test_an_unknown_rule_is_an_error_with_what_there_is(wanted: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f'there is no rule "{wanted}" {instead}')):
        rules.find(wanted, KNOWN)
