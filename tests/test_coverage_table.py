"""The README's table of models and instruments is what recordings of these models hold."""

from __future__ import annotations

import pytest
from support.coverage_table import MODELS, PARTLY, README, Row, measured, parts, table


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {name: measured(case) for name, case in (MODELS | PARTLY).items()}


def test_the_readme_shows_what_is_measured_now(rows: dict[str, Row]) -> None:
    assert parts(README.read_text())[1] == table(rows), "`make coverage-table` rewrites the table"


def test_every_eager_model_is_covered_whole(rows: dict[str, Row]) -> None:
    assert {name: rows[name].share for name in MODELS if rows[name].share < 1.0} == {}
    assert all(rows[name].share < 1.0 for name in PARTLY), "a share can be less"


def test_whatever_was_not_measured_has_a_reason(rows: dict[str, Row]) -> None:
    assert [row for row in rows.values() if any("no reason" in why for why in row.reasons.values())] == []
