"""LOS005."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.synthetic import CHANCE, Training, codes, falling, flat, found, loss_input

from analyzer.detectors.stuck_at_chance import StuckAtChance
from analyzer.findings import NotApplicable

RULE = StuckAtChance()
STUCK = Training(loss=flat(300))


def test_a_loss_that_stays_at_chance(tmp_path: Path) -> None:
    (finding,) = found(RULE, STUCK, tmp_path)
    assert finding.severity == "error"
    assert "ln 10" in finding.message
    assert finding.value == 1.0


def test_a_network_that_fell_back_to_chance_and_stayed(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=[*falling(100), *flat(200)]), tmp_path)
    assert finding.first_step == pytest.approx(100, abs=20)


def test_it_is_told_before_the_stall_that_it_is_and_after_its_cause(tmp_path: Path) -> None:
    assert codes(STUCK, tmp_path / "alone") == [("LOS005", "error")]
    creeping = STUCK.but(update=lambda step, layer: 1e-6, straight=0.9)
    assert codes(creeping, tmp_path / "explained") == [("STP002", "error")]


def test_what_speaks_for_a_cause_is_told_first(tmp_path: Path) -> None:
    (finding,) = found(RULE, STUCK.but(steps={"input_std": 0.0}), tmp_path)
    assert "all the same" in finding.causes[0]
    (dead,) = found(RULE, STUCK.but(gradient=lambda step, layer: 0.0), tmp_path / "dead")
    assert "No gradient" in dead.causes[0]


@pytest.mark.parametrize(
    "loss",
    [
        flat(300, 0.95 * CHANCE),  # it learned something
        [*flat(100), *falling(200)],  # a plateau that was left
        [*flat(270), *falling(30, rate=0.01)],  # one that is being left
        falling(300),
    ],
)
def test_near_misses(tmp_path: Path, loss: list[float]) -> None:
    assert found(RULE, Training(loss=loss), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert found(RULE, Training(loss=flat(300, 0.9 * CHANCE), noise=0.08, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (STUCK.but(loss=flat(60)), "too few"),
        (STUCK.but(rate=lambda step: 1e-4 * (step + 1)), "still rising"),
        (STUCK.but(events=(loss_input("MSELoss"),)), "no cross-entropy"),
        (STUCK.but(steps={"optimizer": [step % 2 for step in range(300)]}), "take turns"),
        (STUCK.but(noise=1.5), "scatter"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
