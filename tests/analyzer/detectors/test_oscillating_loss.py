"""LOS004."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import CHANCE, Training, falling, flat, found

from analyzer.detectors.oscillating_loss import OscillatingLoss
from analyzer.findings import NotApplicable

RULE = OscillatingLoss()


def waves(period: float, height: float = 0.5, steps: int = 400) -> list[float]:
    return [0.6 * CHANCE * (1 + height * math.sin(2 * math.pi * step / period)) for step in range(steps)]


SWINGING = Training(loss=waves(100))


@pytest.mark.parametrize(("period", "noise"), [(100, 0.02), (100, 0.3), (100, 0.0), (12, 0.0), (2.01, 0.01)])
def test_swings_beyond_the_noise(tmp_path: Path, period: float, noise: float) -> None:
    (finding,) = found(RULE, Training(loss=waves(period), noise=noise), tmp_path)
    assert finding.severity == "warning"


def test_two_slow_swings_of_which_one_doubles_the_loss(tmp_path: Path) -> None:
    slow = [*falling(20, floor=0.4, rate=0.3), *(0.7 - 0.3 * math.cos(step / 30) for step in range(280))]
    assert len(found(RULE, Training(loss=slow, noise=0.0), tmp_path)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": waves(100, height=0.05)},  # small
        {"loss": [0.02 * loss for loss in waves(100)], "logits": 40.0},  # of a training that did well
        {"loss": [loss * math.exp(-step / 100) for step, loss in enumerate(waves(50))]},  # it gets on
        {"loss": [*falling(200, rate=0.1), *falling(200, 1.5, 0.6)]},  # one rise
        {"loss": falling(400)},
    ],
)
def test_near_misses(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert found(RULE, SWINGING.but(**changes), tmp_path) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.02, 0.5, 1.5])
def test_noise_is_silent(tmp_path: Path, seed: int, noise: float) -> None:
    assert found(RULE, Training(loss=flat(600), noise=noise, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (SWINGING.but(loss=flat(60)), "too few"),
        (SWINGING.but(loss=flat(300, -1.0)), "negative"),
        (SWINGING.but(rate=lambda step: 0.1 + 0.05 * math.sin(step / 16)), "rises again"),
        (SWINGING.but(rate=lambda step: 0.001 * (step + 1)), "still rising"),
        (SWINGING.but(steps={"optimizer": [step % 2 for step in range(400)]}), "take turns"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
