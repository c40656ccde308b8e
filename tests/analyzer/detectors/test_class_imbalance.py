"""DAT010."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.synthetic import Training, found, loss_input
from torch import Tensor

from analyzer.detectors.class_imbalance import ClassImbalance
from analyzer.findings import NotApplicable

RULE = ClassImbalance()


def counted(shares: Sequence[float], recalls: Sequence[float], steps: int = 300, seed: int = 0) -> dict[str, Any]:
    """Counts and hits of random batches of 64."""
    chance = random.Random(seed)
    counts, hits = [], []
    for _ in range(steps):
        drawn = chance.choices(range(len(shares)), shares, k=64)
        counts.append([float(drawn.count(k)) for k in range(len(shares))])
        hits.append(
            [float(sum(chance.random() < recalls[k] for _ in range(drawn.count(k)))) for k in range(len(shares))]
        )
    return {"class_counts": counts, "class_hits": hits}


@pytest.mark.parametrize(("recall", "severity"), [(0.02, "error"), (0.35, "warning")])
def test_a_rare_class_that_is_not_predicted(tmp_path: Path, recall: float, severity: str) -> None:
    (finding,) = found(RULE, Training(steps=counted([0.95, 0.05], [0.99, recall])), tmp_path)
    assert finding.severity == severity
    assert "Class 1" in finding.message


def test_one_of_four(tmp_path: Path) -> None:
    assert len(found(RULE, Training(steps=counted([0.33, 0.33, 0.32, 0.02], [0.95, 0.9, 0.9, 0.05])), tmp_path)) == 1


@pytest.mark.parametrize(
    ("shares", "recalls"),
    [
        ([0.95, 0.05], [0.98, 0.8]),  # a model that learned it
        ([0.8, 0.2], [0.99, 0.1]),  # not that rare
        ([0.95, 0.05], [0.6, 0.4]),  # a model that errs everywhere
        ([0.5, 0.5], [1.0, 0.0]),
        ([0.999, 0.001], [1.0, 0.0]),  # too few at the end to tell
    ],
)
def test_others_are_silent(tmp_path: Path, shares: list[float], recalls: list[float]) -> None:
    assert found(RULE, Training(steps=counted(shares, recalls)), tmp_path) == []


def test_noise_is_silent(tmp_path: Path) -> None:
    """Predictions that have nothing to do with classes that are equally frequent."""
    for seed in range(5):
        steps = counted([0.25] * 4, [0.25] * 4, seed=seed)
        assert found(RULE, Training(steps=steps, noise=0.4, seed=seed), tmp_path / str(seed)) == []


RARE = counted([0.95, 0.05], [0.99, 0.02])
SORTED = {
    "class_counts": [[64.0, 0.0]] * 270 + [[0.0, 64.0]] * 30,
    "class_hits": [[64.0, 0.0]] * 270 + [[0.0, 0.0]] * 30,
}


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(steps=RARE | {"optimizer": [step % 2 for step in range(300)]}), "turns"),
        (Training(steps=RARE | {"batch_size": 4}, events=(loss_input(),)), "too few"),  # 64 tokens of 4 sequences
        (Training(steps=SORTED), "shuffled"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def rare(index: int) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(64, 4)
    return inputs, (inputs[:, 0] + torch.randn(64) > 2.4).long()


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "rare", F.cross_entropy, outputs=2, batch=rare, steps=60))
    weights = recorded(
        tmp_path / "weights", lambda p, t: F.cross_entropy(p, t, torch.tensor([1.0, 20.0])), outputs=2, batch=rare
    )
    assert not says(RULE, weights)
    binary = recorded(
        tmp_path / "binary",
        lambda p, t: F.binary_cross_entropy_with_logits(p, t.float()[:, None]),
        outputs=1,
        batch=rare,
        steps=60,
    )
    assert says(RULE, binary)


@pytest.mark.parametrize(("recall", "fires"), [(0.05, True), (0.4, False)])
def test_weights_that_do_not_make_up_for_it(tmp_path: Path, recall: float, *, fires: bool) -> None:
    weighted = ({"kind": "loss-input", "detail": {"weighted": True}},)
    result = found(RULE, Training(steps=counted([0.95, 0.05], [0.99, recall]), events=weighted), tmp_path)
    assert bool(result) is fires
    assert all("weights" in finding.evidence.opposing[0] for finding in result)
