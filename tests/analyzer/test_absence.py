"""Why a column is empty: each cause, in the words of rules, charts and `glideslope info`, and never a contradiction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.runs import write_run

from analyzer import derived
from analyzer.absence import absence, why_absent, why_empty, why_not_applicable
from analyzer.run import Run, open_run
from recorder import schema

VARIANCE = {"name": "losses", "columns": [{"table": "steps", "column": "loss_var"}]}
FAILED = [{"kind": "error", "message": "m", "detail": {"instrument": "losses", "exception": "OSError: x"}}]
TOLD = [{"kind": "not-measured", "detail": {"columns": ["steps.loss_var"], "reason": "compiled."}}]


def run(path: Path, steps: Any = None, **arguments: Any) -> Run:
    return open_run(write_run(path, {"loss": [1.0]} if steps is None else steps, **arguments))


CAUSES = {
    "no step": ({"steps": {}}, "no step", "recorded no step"),
    "told": ({"events": TOLD}, "not measured", "compiled"),
    "failed": ({"events": FAILED, "manifest": {"instruments": [VARIANCE]}}, "not measured", "failed (OSError: x)"),
    "told and failed": (
        {"events": [*FAILED, *TOLD], "manifest": {"instruments": [VARIANCE]}},
        "not measured",
        "compiled",
    ),
    "an odd error": (
        {"events": [{"kind": "error", "detail": {"instrument": ["losses"]}}], "manifest": {"instruments": [VARIANCE]}},
        "no value",
        "",
    ),
    "no instrument": ({}, "no instrument", ""),
    "empty": ({"manifest": {"instruments": [VARIANCE]}}, "no value", ""),
}


@pytest.mark.parametrize(("arguments", "cause", "words"), CAUSES.values(), ids=list(CAUSES))
def test_every_cause_in_every_wording(arguments: dict[str, Any], cause: str, words: str, tmp_path: Path) -> None:
    opened = run(tmp_path, **arguments)
    assert absence(opened, "steps", "loss_var").cause == cause
    for tell in (why_not_applicable, why_absent, why_empty):
        said = tell(opened, "steps", "loss_var")
        assert words in said
        assert ".." not in said
        assert "()" not in said


def test_what_is_derived_is_missing_because_its_ingredients_are(tmp_path: Path) -> None:
    opened = run(tmp_path, manifest={"preset": "basic"})
    assert why_not_applicable(opened, "steps", "loss_se") == (
        'no instrument of this run recorded steps.loss_var (preset "basic")'
    )
    assert why_absent(opened, "steps", "loss_se").startswith("No instrument of this run (preset “basic”) records “")


def test_ingredients_that_never_come_together(tmp_path: Path) -> None:
    opened = run(tmp_path, {"loss": [1.0, 1.0], "loss_var": [1.0, None], "loss_count": [None, 3]})
    assert not opened.has("steps", "loss_se")
    assert absence(opened, "steps", "loss_se").columns == ()
    assert "at no step all of them together" in why_absent(opened, "steps", "loss_se")
    assert why_not_applicable(opened, "steps", "loss_se") == "steps.loss_se follows from none of the recorded values"


def test_columns_that_are_normally_null_say_when(tmp_path: Path) -> None:
    opened = run(tmp_path)
    assert why_empty(opened, "steps", "grad_norm_clipped") == "null if nothing changed it"
    assert why_empty(opened, "layers", "grad_norm") == "layers has no row"
    assert (
        why_empty(opened, "layers", "made_up") == why_empty(opened, "x", "y") == "unknown to this version of glideslope"
    )


@pytest.mark.parametrize("events", [(), TOLD])
def test_every_column_has_a_reason(events: Any, tmp_path: Path) -> None:
    opened = run(tmp_path, {"step": [0]}, events=events)
    for table in schema.TABLES:
        for name in (*schema.TABLES[table].columns, *derived.DERIVED.get(table, {})):
            if not opened.has(table, name):
                assert all(tell(opened, table, name) for tell in (why_not_applicable, why_absent, why_empty))


def test_what_a_model_need_not_have(tmp_path: Path) -> None:
    """Where the instrument is there, and found no batch norm."""
    mode = {"name": "mode", "columns": [{"table": "modules", "column": "normalized_over"}]}
    opened = run(tmp_path / "with", manifest={"instruments": [mode]})
    assert absence(opened, "modules", "normalized_over").cause == "not measured"
    assert "no batch norm" in why_not_applicable(opened, "modules", "normalized_over")
    assert absence(run(tmp_path / "without"), "modules", "normalized_over").cause == "no instrument"
