"""ACT002."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.synthetic import ByLayer, Training, codes, falling, flat, found
from support.trainings import train
from torch import nn

from analyzer.detectors.saturated_units import SaturatedUnits
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = SaturatedUnits()
PROBES = [step for step in range(300) if step < 100 or step % 16 == 0]
SIZE = {"batch_size": 64}


def units(share: Callable[[int], float]) -> dict[str, Any]:
    """One activation module, with so many saturated units by step."""
    rows = {"step": PROBES, "module": ["1"] * len(PROBES), "unit_count": 64, "dead_share": 0.0}
    return rows | {"saturated_share": [share(step) for step in PROBES]}


BORN = Training(loss=flat(300), modules=units(lambda step: 0.8), steps=SIZE)


def test_saturated_from_the_first_step_on(tmp_path: Path) -> None:
    (finding,) = found(RULE, BORN, tmp_path)
    assert (finding.severity, finding.first_step, finding.value) == ("error", 0, 0.8)


def test_saturated_later(tmp_path: Path) -> None:
    (finding,) = found(RULE, BORN.but(modules=units(lambda step: 0.0 if step < 20 else 0.9)), tmp_path)
    assert finding.first_step == 20
    assert "rate" in finding.causes[0]


def test_it_explains_gradients_that_vanish(tmp_path: Path) -> None:
    gone: ByLayer = lambda step, layer: 0.05 if layer == 5 else 1e-8  # noqa: E731
    assert codes(BORN.but(gradient=gone), tmp_path) == [("ACT002", "error")]


@pytest.mark.parametrize(
    "training",
    [
        BORN.but(loss=falling(300)),
        BORN.but(modules=units(lambda step: 0.3)),
        BORN.but(modules=units(lambda step: 0.9 if step % 32 else 0.0)),
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    noisy = Training(loss=flat(300), noise=0.5, seed=seed, modules=units(lambda step: (step * 37 % 100) / 100))
    assert found(RULE, noisy.but(steps=SIZE), tmp_path) == []


def test_small_batches_do_not_tell(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="below 16"):
        found(RULE, BORN.but(steps={"batch_size": 4}), tmp_path)


@pytest.mark.parametrize(("bias", "fires"), [(30.0, True), (0.0, False)])
def test_a_recorded_training(tmp_path: Path, bias: float, *, fires: bool) -> None:
    torch.manual_seed(0)
    first = nn.Linear(6, 16)
    nn.init.constant_(first.bias, bias)
    data = [(torch.randn(32, 6), torch.randint(0, 3, (32,))) for _ in range(120)]
    model = nn.Sequential(first, nn.Tanh(), nn.Linear(16, 3))
    train(tmp_path / "run", model, data, nn.CrossEntropyLoss(), preset="economy")
    assert bool(list(RULE.detect(open_run(tmp_path / "run")))) is fires


def values(start: float, late: float) -> dict[str, Any]:
    """No unit at one end for every sample, but so many values at either of them."""
    course = [start if step < 30 else late for step in PROBES]
    return units(lambda step: 0.0) | {"module": ["hidden (tanh)"] * len(PROBES), "flat_share": course}


@pytest.mark.parametrize(("loss", "severity"), [(flat(300), "error"), (falling(300), "warning")])
def test_values_at_either_end_from_the_first_step_on(tmp_path: Path, loss: list[float], severity: str) -> None:
    (finding,) = found(RULE, BORN.but(loss=loss, modules=values(0.8, 0.85)), tmp_path)
    assert (finding.severity, finding.value) == (severity, 0.85)
    assert "values of hidden (tanh) are saturated from the first step on" in finding.message


@pytest.mark.parametrize("shares", [(0.1, 0.9), (0.9, 0.2), (0.3, 0.3)])
def test_values_that_saturate_with_training_or_do_not_stay_so(tmp_path: Path, shares: tuple[float, float]) -> None:
    assert found(RULE, BORN.but(modules=values(*shares)), tmp_path) == []
