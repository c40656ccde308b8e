"""LOS002."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.synthetic import CHANCE, Training, codes, falling, flat, found, loss_input

from analyzer.detectors.diverged import Diverged
from analyzer.findings import NotApplicable

RULE = Diverged()
LOST = Training(loss=[*falling(200, rate=0.05), *flat(100)])
BROKEN = {"input_std": [1.0] * 200 + [3.0] * 100}


def test_a_run_that_ends_where_it_began(tmp_path: Path) -> None:
    (finding,) = found(RULE, LOST, tmp_path)
    assert finding.severity == "error"
    assert finding.first_step == pytest.approx(200, abs=2)


def test_a_run_that_ends_above_its_start(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=[CHANCE + step / 50 for step in range(300)]), tmp_path)
    assert "It never was lower" in finding.message


def test_a_regression_is_compared_with_its_start(tmp_path: Path) -> None:
    regression = LOST.but(events=(loss_input("MSELoss"),))
    (finding,) = found(RULE, regression, tmp_path)
    assert "the start" in finding.message


def test_most_of_it_lost_is_a_warning(tmp_path: Path) -> None:
    (finding,) = found(RULE, LOST.but(loss=[*falling(200, rate=0.05), *flat(100, 0.6 * CHANCE)]), tmp_path)
    assert finding.severity == "warning"


def test_data_that_changed_is_told_first(tmp_path: Path) -> None:
    (finding,) = found(RULE, LOST.but(steps=BROKEN), tmp_path)
    assert "Data that changed" in finding.causes[0]
    assert any("from 1 to 3" in sentence for sentence in finding.evidence.supporting)


def test_it_stands_above_the_stall_and_below_its_cause(tmp_path: Path) -> None:
    assert codes(LOST, tmp_path / "alone") == [("LOS002", "error")]
    thrown = Training(loss=[CHANCE, *flat(299, 7.0)], update=lambda step, layer: 0.5 if step < 20 else 0.01)
    assert codes(thrown, tmp_path / "thrown") == [("STP001", "error")]


def test_a_jump_without_a_larger_gradient_before_is_no_explosion(tmp_path: Path) -> None:
    broken = LOST.but(loss=[*falling(200, rate=0.05), *flat(150, 5.0)])
    jump = broken.but(gradient=lambda step, layer: 0.05 if step < 200 else 5.0)
    assert codes(jump, tmp_path / "jump") == [("LOS002", "error")]
    grown = broken.but(gradient=lambda step, layer: 0.05 if step < 196 else 5.0)
    assert codes(grown, tmp_path / "grown") == [("GRD001", "error")]


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": falling(300)},
        {"loss": [*falling(100), *flat(50, 3.0), *falling(150, start=3.0, rate=0.05)]},  # it came back
        {"loss": [*falling(150, rate=0.1), *falling(150, 1.9, 0.9)]},  # harder data, and it learns them
        {"loss": [*falling(150, rate=0.1), *flat(150, 0.3 * CHANCE)]},  # harder data, with a floor of their own
        {"loss": falling(300, 50.0, 20.0), "logits": 60.0},  # it began far too high, and came down
        {"loss": [*falling(290), *flat(10)]},  # at the last steps only
        {"rate": lambda step: 0.01 if step < 280 else 0.1},  # a restart just before the end
    ],
)
def test_near_misses(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert found(RULE, LOST.but(**changes), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_noise_is_silent(tmp_path: Path, seed: int, noise: float) -> None:
    assert found(RULE, Training(loss=flat(300), noise=noise, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (LOST.but(loss=flat(60)), "too few"),
        (LOST.but(loss=flat(300, -1.0)), "negative"),
        (LOST.but(steps={"optimizer": [step % 2 for step in range(300)]}), "take turns"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
