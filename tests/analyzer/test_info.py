"""What `glideslope info` tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.runs import write_run

from analyzer.info import describe
from analyzer.run import open_run


def column(name: str) -> dict[str, Any]:
    table, _, short = name.partition(".")
    return {"table": table, "column": short, "unit": "", "description": ""}


INSTRUMENTS = [
    {"name": "losses", "columns": [column("steps.loss"), column("steps.loss_var")]},
    {"name": "alpha", "columns": [column("steps.start_slope")]},
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
    assert "    steps.loss  75 %" in lines
    assert "    steps.loss_var  nothing" in lines
    assert "    steps.start_slope  nothing (compiled)" in lines
    assert "    steps.future  unknown to this version of glideslope" in lines
    assert "    future.x  unknown to this version of glideslope" in lines
    assert "  2 probed, 250 ms a step (median)" in lines
    assert "  not-measured 1, coverage 1" in lines
    assert lines[lines.index("individual gradients") + 1 :][:2] == [
        "  seen for 75 % of the parameters",
        "  not for a\\x1b: sparse",
    ]
    assert "  steps     4 rows in 1 shard" in lines


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
    assert lines[lines.index("steps") + 1] == "  none recorded"
    assert "    steps.loss  nothing" in lines
