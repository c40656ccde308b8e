"""LOS003."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.synthetic import Training, falling, flat, found

from analyzer.detectors.loss_spike import LossSpike
from analyzer.findings import NotApplicable

RULE = LossSpike()


def spiked(lasting: int, height: float = 8.0, at: int = 200, steps: int = 400) -> list[float]:
    """Losses that fall, jump up by a factor, and come back."""
    return [loss * (height if at <= step < at + lasting else 1) for step, loss in enumerate(falling(steps, floor=0.5))]


SPIKE = Training(loss=spiked(20))


def test_a_spike_that_comes_back_soon_is_a_note(tmp_path: Path) -> None:
    (finding,) = found(RULE, SPIKE, tmp_path)
    assert (finding.severity, finding.first_step) == ("note", 200)
    assert "back after 20 steps" in finding.message


def test_one_that_takes_long_is_a_warning(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=spiked(80)), tmp_path)
    assert finding.severity == "warning"


def test_one_that_the_run_did_not_get_over_is_a_warning(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=spiked(20, at=390)), tmp_path)
    assert finding.severity == "warning"
    assert "not back when the run ended" in finding.message


@pytest.mark.parametrize(
    ("peak", "fires"), [(1e3, True), (3.0, False)], ids=["a bad batch", "other data from there on"]
)
def test_one_that_did_lasting_harm(tmp_path: Path, peak: float, *, fires: bool) -> None:
    losses = [*falling(200, floor=0.05, rate=0.05), peak, *(3.0 * 0.995**step for step in range(199))]
    severities = [item.severity for item in found(RULE, Training(loss=losses), tmp_path)]
    assert severities == ["warning"] * fires


def test_a_batch_that_is_far_out_of_line(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=spiked(1, 50.0)), tmp_path)
    assert "back after 1 step." in finding.message
    assert any("single batch" in sentence for sentence in finding.evidence.opposing)


def test_spikes_are_counted(tmp_path: Path) -> None:
    twice = [max(pair) for pair in zip(spiked(20), spiked(30, at=355), strict=True)]
    (finding,) = found(RULE, Training(loss=twice), tmp_path)
    assert any("2 spikes, at steps 200 and 355" in sentence for sentence in finding.evidence.supporting)


def test_a_larger_input_is_told(tmp_path: Path) -> None:
    (finding,) = found(RULE, SPIKE.but(steps={"input_absmax": [1.0] * 200 + [90.0] + [1.0] * 199}), tmp_path)
    assert any("largest input was 90" in sentence for sentence in finding.evidence.supporting)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": falling(400)},
        {"loss": spiked(200)},  # a step up that stays
        {"loss": spiked(3, 1.1)},  # within the noise
        {"loss": spiked(1, 3.0)},  # an odd batch
        {"loss": [0.01 * loss for loss in spiked(20, 4.0)], "logits": 30.0, "loss_scale": 1.0},  # long converged
        {"rate": lambda step: 0.05 if step < 190 else 0.1},  # a restart of the rate
    ],
)
def test_near_misses(tmp_path: Path, changes: dict[str, Any]) -> None:
    training = SPIKE.but(**changes)
    if "logits" in changes:
        training = training.but(loss=[*falling(400, floor=0.004)[:100], *training.loss[100:]])
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.1, 0.5, 1.5])
def test_noise_is_silent(tmp_path: Path, seed: int, noise: float) -> None:
    assert found(RULE, Training(loss=flat(600), noise=noise, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (SPIKE.but(loss=flat(60)), "too few"),
        (SPIKE.but(loss=flat(300, -1.0)), "negative"),
        (SPIKE.but(steps={"optimizer": [step % 2 for step in range(400)]}), "take turns"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
