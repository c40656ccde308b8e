"""Phases of a training by its recorded rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import write_run

from analyzer.phases import Phases, phases
from analyzer.run import open_run


def of(path: Path, rate: Callable[[int], float], steps: int = 200) -> Phases:
    found = phases(open_run(write_run(path, {"lr": [[rate(step)] for step in range(steps)], "loss": 1.0})))
    assert found is not None
    return found


def test_a_constant_rate_is_full_from_the_start(tmp_path: Path) -> None:
    found = of(tmp_path, lambda step: 0.1)
    assert (found.full_from, found.decayed_from, found.rises, found.warmed_up) == (0, None, (), False)
    assert found.full() == (0, 199)


def test_warm_up_and_cosine_decay(tmp_path: Path) -> None:
    found = of(tmp_path, lambda step: min(1, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / 200)))
    assert found.warmed_up
    assert 17 <= found.full()[0] <= 19
    assert 155 <= found.full()[1] <= 165


def test_steps_down(tmp_path: Path) -> None:
    assert of(tmp_path, lambda step: 0.1 if step < 100 else 0.001).decayed_from == 100
    assert of(tmp_path / "mild", lambda step: 0.1 if step < 100 else 0.02).decayed_from is None


def test_restarts_are_rises(tmp_path: Path) -> None:
    found = of(tmp_path, lambda step: 0.5 * (1 + math.cos(math.pi * (step % 50) / 50)) + 0.001)
    assert found.rises == (50, 100, 150)
    assert found.full_from == 0


@pytest.mark.parametrize("rate", [lambda step: (step + 1) / 1000, lambda step: 1e-6 * 1.1**step])
def test_a_rate_that_rises_to_the_end_never_gets_full(tmp_path: Path, rate: Callable[[int], float]) -> None:
    found = of(tmp_path, rate)
    assert found.full_from is None
    assert found.full() == (199, 199)


def test_one_step(tmp_path: Path) -> None:
    assert of(tmp_path, lambda step: 0.1, steps=1).full() == (0, 0)


def test_the_largest_rate_of_the_groups_counts(tmp_path: Path) -> None:
    found = phases(open_run(write_run(tmp_path, {"lr": [[0.0, 0.1], [0.0, 0.2]], "loss": 1.0})))
    assert found is not None
    assert found.peak == 0.2
    assert found.zero_share == 0


def test_without_rates_there_are_no_phases(tmp_path: Path) -> None:
    assert phases(open_run(write_run(tmp_path, {"loss": [1.0, 2.0]}))) is None
