"""DAT004."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.synthetic import Training, falling, found, loss_input
from torch import Tensor, nn

from analyzer.detectors.softmax_twice import SoftmaxTwice
from analyzer.detectors.wrong_dimension import WrongDimension
from analyzer.findings import NotApplicable

RULE = WrongDimension()
NAMES = ("prediction_min", "prediction_max", "prediction_sum_min", "prediction_sum_max")


def given(*values: Any) -> Training:
    return Training(steps=dict(zip(NAMES, values, strict=True)))


def test_a_softmax_over_64_samples(tmp_path: Path) -> None:
    (finding,) = found(RULE, given(0.001, 0.6, 0.02, 1.2), tmp_path)
    assert finding.severity == "error"
    assert "64 samples" in finding.message


def test_a_log_softmax_over_64_samples(tmp_path: Path) -> None:
    highs = [-3.5, *[-1.5] * 299]
    (finding,) = found(RULE, given(-9.0, highs, -60.0, -30.0), tmp_path)
    assert "log-softmax with dim=0" in finding.message


@pytest.mark.parametrize(
    "training",
    [
        given(-3.0, 4.0, -2.0, 5.0),  # logits
        given(0.0, 0.98, 1.0, 1.0),  # a softmax over the classes
        given(0.0, 0.9, 0.0, 3.0),  # a ReLU
        given(0.3, 0.7, 4.0, 6.0),  # sigmoids
        given(-9.0, -0.1, -40.0, -24.0),  # a log-softmax over the classes
        given(-6.0, -2.2, -40.0, -24.0),  # the same at the start
        given(-6.0, -3.0, -38.0, -35.0),  # negative logits that are not small enough for 64 samples
        given(0.01, [0.3, *[1.4] * 299], 0.1, 2.0),  # logits that left [0, 1]
    ],
)
def test_others_are_silent(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


def test_noise_is_silent(tmp_path: Path) -> None:
    """Small logits of a network that learns nothing."""
    for seed in range(5):
        chance = random.Random(seed)
        lows = [chance.gauss(0, 0.1) for _ in range(300)]
        highs = [low + 0.5 for low in lows]
        training = given(lows, highs, [10 * low for low in lows], [10 * high for high in highs])
        assert found(RULE, training, tmp_path / str(seed)) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(events=(loss_input("mse_loss"),)), "no dimension"),
        (Training(events=(loss_input("nll_loss"), loss_input("cross_entropy"))), "several"),
        (Training(loss=falling(2)), "probes"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def divergence(prediction: Tensor, target: Tensor) -> Tensor:
    """From a distribution that is sure of the class, as in distillation."""
    return F.kl_div(prediction, F.one_hot(target, prediction.shape[1]).float(), reduction="batchmean")


def test_recorded(tmp_path: Path) -> None:
    for name, loss, last in (
        ("probabilities", F.cross_entropy, nn.Softmax(dim=0)),
        ("logarithms", F.cross_entropy, nn.LogSoftmax(dim=0)),
        ("likelihood", F.nll_loss, nn.LogSoftmax(dim=0)),
        ("divergence", divergence, nn.LogSoftmax(dim=0)),
    ):
        run = recorded(tmp_path / name, loss, last)
        (finding,) = says(RULE, run)
        assert "16 samples" in finding.message
        assert math.isfinite(finding.value or math.nan)
        assert says(SoftmaxTwice(), run) == []
    assert not says(RULE, recorded(tmp_path / "right", F.nll_loss, nn.LogSoftmax(dim=1)))
    assert not says(RULE, recorded(tmp_path / "divergence, right", divergence, nn.LogSoftmax(dim=1)))
    assert not says(RULE, recorded(tmp_path / "twice", F.cross_entropy, nn.Softmax(dim=1)))
