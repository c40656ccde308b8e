"""RUN004."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.runs import write_run

from analyzer.detectors.throughput_stalls import ThroughputStalls
from analyzer.findings import Finding, NotApplicable
from analyzer.run import open_run

RULE = ThroughputStalls()


def found(path: Path, period: Callable[[int], float], steps: int = 400, **tables: Any) -> list[Finding]:
    """What is found where a step begins so many seconds after the one before."""
    times = [0.0]
    for step in range(steps - 1):
        times.append(times[-1] + period(step))
    probed = [step < 100 or step % 16 == 0 for step in range(steps)]
    columns = {"time": times, "duration": 0.01, "probed": probed, "loss": 1.0}
    return list(RULE.detect(open_run(write_run(path, columns, **tables))))


def usual(step: int) -> float:
    return 0.05 if step < 100 or step % 16 == 0 else 0.02


def test_a_loader_that_stalls(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, lambda step: 0.5 if 200 <= step < 206 else usual(step))
    assert (finding.severity, finding.first_step, finding.last_step) == ("warning", 200, 205)
    assert "1 stall of 6 steps" in finding.message
    assert any("between" in sentence for sentence in finding.evidence.supporting)


def test_single_long_steps_are_silent(tmp_path: Path) -> None:
    """Checkpoints, the start of an epoch."""
    assert found(tmp_path, lambda step: 5.0 if step % 40 == 39 else usual(step)) == []


def test_validation_is_silent(tmp_path: Path) -> None:
    metrics = {"step": [200, 201, 202, 203], "split": "valid", "name": "loss", "value": 1.0}
    assert found(tmp_path, lambda step: 2.0 if 200 <= step < 204 else usual(step), metrics=metrics) == []


def test_the_start_and_the_probes_are_silent(tmp_path: Path) -> None:
    assert found(tmp_path, lambda step: 3.0 if step < 8 else 0.5 if step < 100 or step % 16 == 0 else 0.02) == []


def test_a_lasting_change_of_pace_is_silent(tmp_path: Path) -> None:
    """Longer sequences from the middle on."""
    assert found(tmp_path, lambda step: usual(step) * (8 if step >= 200 else 1)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_busy_machine_is_silent(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    assert found(tmp_path, lambda step: 0.001 + (chance.random() < 0.3) * 0.1 * chance.random()) == []


def test_too_few_steps(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="20 steps"):
        found(tmp_path, usual, steps=20)
