"""DAT003."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.synthetic import Training, falling, found, loss_input
from torch import Tensor, nn

from analyzer.detectors.softmax_twice import SoftmaxTwice
from analyzer.findings import NotApplicable

RULE = SoftmaxTwice()
LOGITS = Training()


def given(low: float, high: float, *sums: float) -> dict[str, Any]:
    """Columns with the same range of predictions at each step, and of their sums."""
    columns: dict[str, Any] = {"prediction_min": low, "prediction_max": high}
    return columns | (dict(zip(("prediction_sum_min", "prediction_sum_max"), sums, strict=True)) if sums else {})


def test_probabilities_for_a_cross_entropy(tmp_path: Path) -> None:
    (finding,) = found(RULE, LOGITS.but(steps=given(0.0, 0.98, 0.9999, 1.0001)), tmp_path)
    assert finding.severity == "error"
    assert "probabilities" in finding.message
    assert "1.461" in finding.evidence.supporting[1]  # ln(9 + e) - 1


@pytest.mark.parametrize(
    "columns",
    [
        given(-3.0, 4.0, -2.0, 5.0),
        given(-0.01, 0.9, 1.0, 1.0),  # a hair below zero is no probability
        given(0.0, 0.9, 0.5, 1.5),  # outputs of a ReLU
        given(-9.0, -0.1, -40.0, -24.0),  # log-probabilities: a second log-softmax does nothing
    ],
)
def test_logits_are_silent(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert found(RULE, LOGITS.but(steps=columns), tmp_path) == []


@pytest.mark.parametrize(
    ("low", "high", "fires"), [(0.02, 0.98, True), (0.2, 0.5, False), (-0.02, 0.9, False), (0.02, 1.01, False)]
)
def test_sigmoid_twice(tmp_path: Path, low: float, high: float, *, fires: bool) -> None:
    """Logits may lie in a part of [0, 1] while they say little; those that spread over half of it leave it."""
    training = LOGITS.but(steps=given(low, high), events=(loss_input("binary_cross_entropy_with_logits", [64, 1]),))
    assert bool(found(RULE, training, tmp_path)) == fires


def test_a_sigmoid_at_the_end_tells_of_outputs_that_say_little(tmp_path: Path) -> None:
    modules = [{"name": "", "type": "Sequential"}, {"name": "0", "type": "Linear"}, {"name": "1", "type": "Sigmoid"}]
    training = LOGITS.but(
        steps=given(0.4, 0.6), events=(loss_input("BCEWithLogitsLoss", [64, 1]),), manifest={"modules": modules}
    )
    assert len(found(RULE, training, tmp_path)) == 1


@pytest.mark.parametrize(
    ("low", "high", "what"), [(0.0, 1.0, "probabilities"), (-4.0, 3.0, "logits"), (-9.0, 0.0, None)]
)
def test_negative_log_likelihood(tmp_path: Path, low: float, high: float, what: str | None) -> None:
    findings = found(RULE, LOGITS.but(steps=given(low, high), events=(loss_input("nll_loss"),)), tmp_path)
    assert [what in finding.message for finding in findings if what] == ([True] if what else [])
    assert bool(findings) == (what is not None)


def test_noise_is_silent(tmp_path: Path) -> None:
    """Logits of a network that learns nothing, by chance often within [0, 1]."""
    for seed in range(5):
        chance = random.Random(seed)
        lows = [chance.uniform(-0.1, 0.3) for _ in range(300)]
        columns = {"prediction_min": lows, "prediction_max": [low + 0.4 for low in lows]}
        training = LOGITS.but(steps=columns, events=(loss_input("BCEWithLogitsLoss", [64, 1]),), seed=seed)
        assert found(RULE, training, tmp_path / str(seed)) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (LOGITS.but(events=(loss_input("mse_loss"),)), "not known"),
        (LOGITS.but(events=(loss_input("nll_loss"), loss_input("cross_entropy"))), "several"),
        (LOGITS.but(loss=falling(2)), "probes"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def binary(prediction: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(prediction.squeeze(1), (target == 0).float())


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "softmax", F.cross_entropy, nn.Softmax(dim=1)))
    assert says(RULE, recorded(tmp_path / "sigmoid", binary, nn.Sigmoid(), outputs=1))
    assert says(RULE, recorded(tmp_path / "missing", F.nll_loss))
    assert not says(RULE, recorded(tmp_path / "right", F.cross_entropy))
    assert not says(RULE, recorded(tmp_path / "right-binary", binary, outputs=1))
    assert not says(RULE, recorded(tmp_path / "right-nll", F.nll_loss, nn.LogSoftmax(dim=1)))
