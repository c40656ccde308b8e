"""RUN002."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.runs import write_run

from analyzer.detectors.recorder_degraded import RecorderDegraded
from analyzer.findings import Finding
from analyzer.run import open_run

RULE = RecorderDegraded()
ERROR = {"kind": "error", "step": 7, "message": "measuring units", "detail": {"instrument": "units", "exception": "x"}}
LOST = {"kind": "lost", "step": None, "message": "500 rows", "detail": {"table": "layers", "rows": 500}}
REASON = "a probe needs more than 12 MiB; the next one keeps 25.00% of the samples"


def cramped(reason: str = REASON, columns: Any = ("steps.grad_var",)) -> dict[str, Any]:
    return {"kind": "not-measured", "message": reason, "detail": {"columns": list(columns), "reason": reason}}


def found(path: Path, *events: dict[str, Any], **steps: Any) -> list[Finding]:
    return list(RULE.detect(open_run(write_run(path, {"loss": [1.0] * 20} | steps, events=events))))


def test_an_instrument_that_failed(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, ERROR)
    assert finding.severity == "warning"
    assert "units failed" in finding.message
    assert finding.first_step == 7


def test_rows_that_were_given_up(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, LOST, LOST)
    assert "1\u202f000 rows could not be written" in finding.message


def test_probes_that_never_had_the_memory(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, cramped())
    assert "memory" in finding.message
    assert "probe_memory" in finding.advice[0]


def test_a_probe_that_was_cut_down_to_fewer_samples_is_silent(tmp_path: Path) -> None:
    assert found(tmp_path, cramped(), grad_var=[None, *[1.0] * 19]) == []


def test_what_a_model_does_not_allow_is_silent(tmp_path: Path) -> None:
    assert found(tmp_path, cramped("compiled"), {"kind": "incident"}, {"kind": "skipped-step"}) == []


def test_odd_events(tmp_path: Path) -> None:
    odd = cramped(columns=["no.table", 3]), {"kind": "error"}, {"kind": "lost", "detail": {"rows": "many"}}
    assert len(found(tmp_path, *odd)) == 1
