"""DAT002."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.synthetic import Training, falling, flat, found, loss_input
from torch import Tensor

from analyzer.detectors.unnormalised_targets import UnnormalisedTargets
from analyzer.findings import NotApplicable

RULE = UnnormalisedTargets()
EVENTS = (loss_input("mse_loss", (64, 1)),)


def fit(middle: Callable[[int], float], spread: Callable[[int], float], targets: tuple[float, float]) -> dict[str, Any]:
    """Predictions by their middle and spread at each step."""
    return {
        "prediction_min": [middle(step) - spread(step) / 2 for step in range(300)],
        "prediction_max": [middle(step) + spread(step) / 2 for step in range(300)],
        "target_min": targets[0],
        "target_max": targets[1],
    }


def training(
    middle: Callable[[int], float], spread: Callable[[int], float], targets: tuple[float, float], **changes: Any
) -> Training:
    loss = falling(300, 20_000.0, 1_500.0)
    return Training(loss=loss, events=EVENTS, steps=fit(middle, spread, targets)).but(**changes)


RAW = (30.0, 330.0)


def test_predictions_that_do_not_reach_the_targets(tmp_path: Path) -> None:
    (finding,) = found(RULE, training(lambda step: step / 20, lambda step: 1.0, RAW), tmp_path)
    assert finding.severity == "error"
    assert "away" in finding.message


def test_predictions_that_took_long(tmp_path: Path) -> None:
    late = training(lambda step: min(180.0, 2.0 * step), lambda step: 2 + 200.0 * (step > 9), RAW)
    (finding,) = found(RULE, late, tmp_path)
    assert finding.severity == "warning"
    assert "took until" in finding.message


def test_targets_that_a_model_makes_for_itself_are_not_meant(tmp_path: Path) -> None:
    """Those of a value function grow with what is predicted."""
    made = training(lambda step: step / 20, lambda step: 1.0 + step / 10, (0.0, 1.0))
    columns = dict(made.steps) | {"target_max": [1.0 + step / 5 for step in range(300)]}
    with pytest.raises(NotApplicable, match="range of the targets grows"):
        found(RULE, made.but(steps=columns), tmp_path)


def test_a_spread_that_still_grows(tmp_path: Path) -> None:
    """Targets without an offset."""
    growing = training(lambda step: 0.0, lambda step: 0.1 + step / 10, (-150.0, 150.0))
    (finding,) = found(RULE, growing, tmp_path)
    assert "grow" in finding.message


def test_first_steps_larger_than_the_weights(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"middle": lambda step: 180.0 * (step > 2), "spread": lambda step: 1 + 150.0 * (step > 2)}
    wild = training(**quick, targets=RAW, update=lambda step, layer: 3.0 if step < 3 else 0.005)
    (finding,) = found(RULE, wild, tmp_path / "wild")
    assert "first steps" in finding.message
    assert found(RULE, training(**quick, targets=RAW), tmp_path / "calm") == []
    assert found(RULE, wild.but(loss=falling(300, 20_000.0, 20.0)), tmp_path / "learned") == []


def test_not_finite_at_once(tmp_path: Path) -> None:
    broken = training(lambda step: 0.0, lambda step: 1.0, RAW, loss=[2e4, 1e9, *flat(298, math.nan)])
    (finding,) = found(RULE, broken, tmp_path)
    assert "not finite" in finding.message


@pytest.mark.parametrize(("spread", "severities"), [(2.0, ["warning"]), (0.1, [])])
def test_targets_far_below_the_first_predictions(tmp_path: Path, spread: float, severities: list[str]) -> None:
    days = training(lambda step: 0.02, lambda step: max(0.03, spread * 0.9**step), (0.002, 0.05))
    assert [finding.severity for finding in found(RULE, days, tmp_path)] == severities


@pytest.mark.parametrize(
    ("middle", "targets"),
    [
        (lambda step: 0.0, (-2.5, 3.0)),  # standardised
        (lambda step: 0.0, (3.0, 9.0)),  # not large, though it is never reached
        (lambda step: 100.0, (30.0, 330.0)),  # the last bias was set to the mean
        (lambda step: 180.0 * (step > 5), (30.0, 330.0)),  # reached at once
    ],
)
def test_others_are_silent(tmp_path: Path, middle: Callable[[int], float], targets: tuple[float, float]) -> None:
    assert found(RULE, training(middle, lambda step: 0.4 * (targets[1] - targets[0]), targets), tmp_path) == []


def test_noise_is_silent(tmp_path: Path) -> None:
    """Standardised targets with heavy tails that have nothing to do with the input."""
    for seed in range(5):
        chance = random.Random(seed)
        steps = {
            "prediction_min": [-0.2 + chance.gauss(0, 0.05) for _ in range(300)],
            "prediction_max": [0.2 + chance.gauss(0, 0.05) for _ in range(300)],
            "target_min": [-2 - chance.expovariate(1) for _ in range(300)],
            "target_max": [2 + chance.expovariate(1) for _ in range(300)],
        }
        noisy = Training(loss=flat(300, 1.0), noise=0.4, events=EVENTS, steps=steps, seed=seed)
        assert found(RULE, noisy, tmp_path / str(seed)) == []


FAR = fit(lambda step: 0.0, lambda step: 1.0, RAW)


@pytest.mark.parametrize(
    ("far", "reason"),
    [
        (Training(steps=FAR), "regression"),
        (Training(loss=flat(300, -1.0), events=EVENTS, steps=FAR), "negative"),
        (Training(events=EVENTS, steps=FAR | {"optimizer": [step % 2 for step in range(300)]}), "optimizers"),
        (Training(events=EVENTS, steps=FAR, first_step=40), "continues"),
        (Training(events=EVENTS, steps=FAR | {"target_max": math.nan}), "fewer than five"),
    ],
)
def test_not_applicable(tmp_path: Path, far: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, far, tmp_path)


def raw(index: int) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(16, 4)
    return inputs, 150 + 50 * inputs[:, :1]


def scaled(index: int) -> tuple[Tensor, Tensor]:
    inputs, targets = raw(index)
    return inputs, (targets - 150) / 50


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "raw", F.mse_loss, outputs=1, batch=raw, lr=1e-4))
    assert says(RULE, recorded(tmp_path / "thrown-off", F.mse_loss, outputs=1, batch=raw, lr=0.1))
    assert not says(RULE, recorded(tmp_path / "right", F.mse_loss, outputs=1, batch=scaled, lr=0.05))


@pytest.mark.parametrize(
    ("policy", "severity"), [(lambda step: math.cos(step / 40), "note"), (lambda step: 1.0, "error")]
)
def test_returns_that_a_critic_foretells_beside_a_policy_are_a_note(
    tmp_path: Path, policy: Callable[[int], float], severity: str
) -> None:
    steps = fit(lambda step: step / 20, lambda step: 1.0, RAW)
    part = falling(300, 20_000.0, 1_500.0)
    loss = [value + 10 * policy(step) for step, value in enumerate(part)]
    training = Training(loss=loss, noise=0.0, events=EVENTS, steps=steps | {"loss_part": part})
    assert [finding.severity for finding in found(RULE, training, tmp_path)] == [severity]
