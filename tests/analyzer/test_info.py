"""What `glideslope info` tells."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from support.runs import run_file, write_run

from analyzer.facts import facts
from analyzer.info import as_json, describe
from analyzer.run import open_run


def column(name: str) -> dict[str, Any]:
    table, _, short = name.partition(".")
    return {"table": table, "column": short, "unit": "", "description": ""}


INSTRUMENTS = [
    {"name": "losses", "columns": [column("steps.loss"), column("steps.loss_var")]},
    {"name": "alpha", "columns": [column("steps.start_slope")]},
    {"name": "served", "columns": []},
    {"name": "later", "columns": [column("steps.future"), column("future.x")]},
]


def told(tmp_path: Path, **arguments: Any) -> list[str]:
    return describe(open_run(write_run(tmp_path / "run", **arguments))).splitlines()


def test_instruments_with_the_share_they_measured_and_why_not(tmp_path: Path) -> None:
    steps = {"loss": [1.0, 2.0, None, 4.0], "duration": 0.25, "probed": [True, False, True, False]}
    events = [
        {"kind": "not-measured", "detail": {"columns": ["steps.start_slope"], "reason": "compiled"}},
        {"kind": "coverage", "detail": {"share": 0.75, "uncovered": [{"tensor": "a\x1b", "reason": "sparse"}, 5]}},
    ]
    lines = told(tmp_path, steps=steps, events=events, manifest={"instruments": INSTRUMENTS})
    assert "    steps.loss      75 %" in lines
    assert "    steps.loss_var  nothing: no value came up, and the recorder gave no reason" in lines
    assert "    steps.start_slope  nothing: compiled" in lines
    assert "    steps.future  nothing: unknown to this version of glideslope" in lines
    assert "    future.x      nothing: unknown to this version of glideslope" in lines
    assert "  2 probed, 250 ms a step (median)" in lines
    assert "  1 not-measured, 1 coverage" in lines
    assert lines[lines.index("individual gradients") + 1 :][:2] == [
        "  seen for 75 % of the parameters",
        "  not for a\\x1b: sparse",
    ]
    assert "  steps       4 rows in 1 shard" in lines


def test_gaps_attempts_problems_and_how_it_ended(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"step": [0, 1, 5, 9], "loss": 1.0}, end=None)
    lines = told(
        tmp_path, steps={"step": [10], "loss": 1.0}, attempt=1, first_step=10, end="failed", exception="OSError: x"
    )
    assert "  status    failed: OSError: x" in lines
    assert "  5 recorded, steps 0 to 10" in lines
    assert "  6 missing in 2 gaps: steps 2 to 4 and steps 6 to 8" in lines
    assert "  1: from step 10, started 2026-01-02T03:04:05+00:00" in lines
    assert "problems" not in lines
    (tmp_path / "run" / "steps" / "a00-r000-000000.parquet").write_bytes(b"")
    lines = describe(open_run(tmp_path / "run")).splitlines()
    assert lines[lines.index("problems") + 1].startswith("  steps/a00-r000-000000.parquet is torn")


def test_a_run_without_steps(tmp_path: Path) -> None:
    lines = told(tmp_path, steps={}, manifest={"instruments": INSTRUMENTS, "model": None, "versions": {}})
    assert lines[lines.index("steps") + 1].startswith("  none recorded: the training ended, or was killed, before")
    assert "    steps.loss      nothing: the run recorded no step" in lines
    assert "  served  (no column of its own)" in lines
    failed = told(tmp_path / "b", steps={}, manifest={"instruments": []}, end="failed", exception="OSError")
    assert "  none recorded: the training failed before its first step ended" in failed
    assert "instruments: the run file names none" in failed


ODD_RUNS: dict[str, dict[str, Any]] = {
    "no step": {"steps": {}},
    "nothing in the run file": {"manifest": dict.fromkeys(run_file().keys() - {"format", "run_id", "attempt"})},
    "NaN": {"steps": {"loss": float("nan"), "duration": [float("nan")]}},
    "infinite": {"steps": {"loss": float("inf"), "duration": [float("inf"), 1.0]}},
    "odd events": {"events": [{"kind": "coverage", "detail": {"share": "x", "uncovered": {"a": 1}}}]},
    "odd share": {"events": [{"kind": "coverage", "detail": {"share": 1e400, "uncovered": [{}]}}]},
}


@pytest.mark.parametrize("arguments", ODD_RUNS.values(), ids=list(ODD_RUNS))
def test_no_heading_is_empty_and_nothing_lacks_a_reason(arguments: dict[str, Any], tmp_path: Path) -> None:
    lines = told(tmp_path, **arguments)
    assert not [line for line in lines if line.endswith(("nothing", "nothing: ", "None", "unknown"))]
    for line, following in itertools.pairwise([*lines, ""]):
        heading = line and not line.startswith(" ") and ":" not in line
        assert not heading or following.startswith("  "), line


@pytest.mark.parametrize("arguments", ODD_RUNS.values(), ids=list(ODD_RUNS))
def test_the_same_as_json(arguments: dict[str, Any], tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, **arguments))
    document = json.loads(as_json(run))
    assert document == facts(run)
    assert (document["steps"]["count"], document["status"]) == (run.step_count, "completed")
    assert all((c["reason"] is None) == (c["share"] > 0) for i in document["instruments"] for c in i["columns"])
