"""DAT001."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says, three_classes
from support.synthetic import CHANCE, Training, falling, flat, found
from torch import Tensor, nn

from analyzer.detectors.unnormalised_inputs import UnnormalisedInputs
from analyzer.findings import NotApplicable

RULE = UnnormalisedInputs()
STUCK = Training(loss=flat(300))


def inputs(std: float, mean: float = 0.0, absmax: float | None = None) -> dict[str, Any]:
    return {"input_mean": mean, "input_std": std, "input_absmax": absmax or abs(mean) + 3 * std}


def first_times(factor: float) -> dict[str, Any]:
    return {"gradient": lambda step, layer: 0.05 * (factor if layer == 0 else 1)}


@pytest.mark.parametrize(
    ("columns", "what"),
    [(inputs(250.0), "large"), (inputs(1e-3), "small"), (inputs(0.5, 8.0), "zero"), (inputs(75.0, 130.0), "large")],
)
def test_badly_scaled_inputs_of_a_training_that_is_stuck(tmp_path: Path, columns: dict[str, Any], what: str) -> None:
    (finding,) = found(RULE, STUCK.but(steps=columns), tmp_path)
    assert finding.severity == "error"
    assert what in finding.message


def test_outputs_far_too_large_at_first(tmp_path: Path) -> None:
    """A training that got away with it: it began far above chance, and learned nearly everything."""
    training = Training(loss=[30.0, *falling(299, 25.0, rate=0.1)], logits=90.0, steps=inputs(80.0))
    (finding,) = found(RULE, training, tmp_path)
    assert finding.severity == "warning"
    assert "times that of uniform" in finding.message


@pytest.mark.parametrize("factor", [1.0, 30.0])
def test_a_little_too_large_must_show_in_the_first_layer(tmp_path: Path, factor: float) -> None:
    findings = found(RULE, STUCK.but(steps=inputs(15.0), **first_times(factor)), tmp_path)
    assert bool(findings) == (factor > 10)


@pytest.mark.parametrize(
    "columns",
    [
        inputs(1.0),
        inputs(0.3, 0.13, 1.0),  # images in [0, 1]
        inputs(4.0, 5.0),  # digits of 0 to 16
        inputs(0.01, 0.002, 0.8),  # sparse rows of unit length
        inputs(0.0, 0.0, 0.0),  # says nothing, but is no matter of scale
    ],
)
def test_sound_inputs_of_a_training_that_is_stuck_are_silent(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert found(RULE, STUCK.but(steps=columns), tmp_path) == []


@pytest.mark.parametrize("columns", [inputs(250.0), inputs(1e-3), inputs(0.5, 8.0)])
def test_a_training_that_does_well_is_silent(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert found(RULE, Training(steps=columns), tmp_path) == []


@pytest.mark.parametrize(("std", "fires"), [(3000.0, True), (80.0, False)])
def test_units_as_they_were_collected_need_no_harm(tmp_path: Path, std: float, *, fires: bool) -> None:
    halfway = Training(loss=falling(300, floor=0.5), steps=inputs(std))
    likelihood = Training(loss=[2.0 - step / 100 for step in range(300)], steps=inputs(std))
    for name, training in (("halfway", halfway), ("likelihood", likelihood)):
        try:
            severities = [finding.severity for finding in found(RULE, training, tmp_path / name)]
        except NotApplicable:
            severities = []
        assert severities == ["warning"] * fires


def test_noise_is_silent(tmp_path: Path) -> None:
    """Odd batches now and then, of a noisy training that gets somewhere."""
    for seed in range(5):
        chance = random.Random(seed)
        stds = [chance.lognormvariate(0, 1.5) for _ in range(300)]
        columns = {"input_mean": 0.0, "input_std": stds, "input_absmax": [3 * std for std in stds]}
        training = Training(loss=falling(300, floor=1.5), noise=0.4, seed=seed, steps=columns)
        assert found(RULE, training, tmp_path / str(seed)) == []


def test_a_loss_that_is_not_finite_at_once(tmp_path: Path) -> None:
    training = Training(loss=[CHANCE, *flat(50, math.nan)], steps=inputs(250.0))
    (finding,) = found(RULE, training, tmp_path)
    assert "not finite" in finding.message


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (STUCK.but(steps=inputs(250.0) | {"optimizer": [step % 2 for step in range(300)]}), "turns"),
        (STUCK.but(loss=flat(300, -1.0), steps=inputs(50.0)), "negative"),
        (STUCK.but(steps=inputs(250.0), manifest={"modules": [{"name": "", "type": "LayerNorm"}]}), "itself"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def raw(index: int) -> tuple[Tensor, Tensor]:
    values, targets = three_classes(index)
    return 300 * values + 500, targets


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "raw", F.cross_entropy, batch=raw))
    assert not says(RULE, recorded(tmp_path / "right", F.cross_entropy, steps=60))
    normalised = recorded(tmp_path / "normalised", F.cross_entropy, batch=raw, first=(nn.BatchNorm1d(4, affine=False),))
    with pytest.raises(NotApplicable, match="itself"):
        says(RULE, normalised)
