"""RUN001."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.runs import write_run

from analyzer.config import Settings, choose
from analyzer.detectors import DETECTORS
from analyzer.detectors.run_not_finished import RunNotFinished
from analyzer.engine import judge_run
from analyzer.findings import Finding
from analyzer.run import open_run

RULE = RunNotFinished()


def ago(**age: float) -> str:
    return (datetime.now(UTC) - timedelta(**age)).isoformat()


def found(path: Path, *, events: Any = (), times: Any = None, **ending: Any) -> list[Finding]:
    steps = {"loss": [1.0] * 20, "time": times or [0.1 * step for step in range(20)], "duration": 0.05}
    manifest = ending.pop("manifest", {})
    return list(RULE.detect(open_run(write_run(path, steps, events=events, manifest=manifest, **ending))))


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def here(pid: int, started: str) -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": pid, "started": started}


def test_a_crash_is_an_error_that_names_the_exception(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, end="failed", exception="RuntimeError: CUDA out of memory")
    assert finding.severity == "error"
    assert "RuntimeError: CUDA out of memory" in finding.message
    assert "memory" in finding.causes[0]
    assert finding.last_step == 19


def test_a_crashed_run_does_not_pass(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, {"loss": [1.0]}, end="failed", exception="ValueError: x"))
    assert judge_run(run, choose(DETECTORS, Settings())).verdict == "fail"


def test_an_interruption_by_hand_is_a_warning(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, end="failed", exception="KeyboardInterrupt")
    assert finding.severity == "warning"


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, end=None, manifest=here(ended_process(), ago(seconds=3)))
    assert finding.severity == "error"
    assert "no longer exists" in finding.evidence.supporting[0]


def test_a_long_silence_elsewhere(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, end=None, manifest={"host": "elsewhere", "started": ago(days=3)})
    assert finding.severity == "warning"
    assert "silent" in finding.message


def test_a_signal_is_told(tmp_path: Path) -> None:
    signal = {"kind": "signal", "detail": {"signal": "SIGTERM"}, "time": 2.0}
    (finding,) = found(tmp_path, end=None, events=[signal], manifest={"host": "elsewhere", "started": ago(days=3)})
    assert "SIGTERM" in finding.message


@pytest.mark.parametrize(
    "manifest",
    [
        lambda: here(os.getpid(), ago(seconds=30)),
        lambda: {"host": "elsewhere", "started": ago(minutes=5)},
        lambda: {"started": None},
    ],
    ids=["process exists", "recent", "age unknown"],
)
def test_a_run_that_goes_on_is_no_more_than_a_note(tmp_path: Path, manifest: Callable[[], dict[str, Any]]) -> None:
    (finding,) = found(tmp_path, end=None, manifest=manifest())
    assert finding.severity == "note"
    assert "go on" in finding.message


def test_a_silence_no_longer_than_its_pauses_is_none(tmp_path: Path) -> None:
    """A validation of an hour after each epoch."""
    times = [step + 3600 * (step // 10) for step in range(20)]
    (finding,) = found(tmp_path, end=None, times=times, manifest={"host": "elsewhere", "started": ago(hours=2)})
    assert finding.severity == "note"


def test_a_run_that_ended_well_is_silent(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_what_a_resumed_run_came_through_is_silent(tmp_path: Path) -> None:
    write_run(tmp_path, {"loss": [1.0] * 20}, end="failed", exception="ValueError: x")
    run = open_run(write_run(tmp_path, {"loss": [1.0] * 20}, attempt=1, first_step=10))
    assert list(RULE.detect(run)) == []
