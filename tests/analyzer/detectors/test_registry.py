"""The rules as a whole."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import analyzer.detectors
from analyzer.detectors import DETECTORS
from analyzer.detectors.base import Detector
from recorder import schema

HEADINGS = ["What it does", "Why it matters", "What to try", "Options", "References"]
by_code = pytest.mark.parametrize("rule", DETECTORS, ids=lambda rule: rule.code)


def test_every_file_is_listed_and_every_code_is_its_own() -> None:
    folder = Path(analyzer.detectors.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "base"}
    assert {type(rule).__module__.rpartition(".")[2] for rule in DETECTORS} == files
    assert len({rule.code for rule in DETECTORS}) == len({rule.name for rule in DETECTORS}) == len(DETECTORS)


@by_code
def test_codes_and_names_have_their_form(rule: Detector) -> None:
    assert re.fullmatch(r"(NUM|LOS|STP|GRD|UPD|WIR|ACT|DAT|CUR|GEN|RUN)\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)


@by_code
def test_the_documentation_has_its_headings_and_every_option(rule: Detector) -> None:
    text = type(rule).__doc__ or ""
    assert re.findall(r"^ *## (.+)$", text, re.MULTILINE) == HEADINGS
    assert all(f"`{option.name}` ({getattr(rule, option.name):g}" in text for option in fields(rule))


@by_code
def test_what_a_rule_needs_is_recorded_and_what_it_explains_exists(rule: Detector) -> None:
    for table, columns in rule.requires.items():
        assert set(columns) <= set(schema.TABLES[table].columns)
    assert set(rule.explains) <= {other.code for other in DETECTORS} - {rule.code}
