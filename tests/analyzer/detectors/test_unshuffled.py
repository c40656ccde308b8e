"""DAT009."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.synthetic import Training, falling, found, loss_input
from torch import Tensor

from analyzer.detectors.unshuffled import Unshuffled
from analyzer.findings import NotApplicable

RULE = Unshuffled()
SWINGING = [1.0 + 0.6 * math.sin(step / 5) for step in range(300)]


def batches(each: Sequence[Sequence[float]], size: int = 64) -> dict[str, Any]:
    return {"class_counts": [[size * share for share in shares] for shares in each], "batch_size": size}


def one_hot(k: int) -> list[float]:
    return [float(k == j) for j in range(4)]


SORTED = batches([one_hot(step // 15 % 4) for step in range(300)])


def test_sorted_by_class(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=SWINGING, steps=SORTED), tmp_path)
    assert finding.severity == "error"
    assert finding.value == pytest.approx(64, rel=0.1)


def test_a_loss_that_does_not_mind(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=falling(300, rate=0.2), steps=SORTED), tmp_path)
    assert finding.severity == "warning"


def test_blocks_of_a_batch_each(tmp_path: Path) -> None:
    """No batch is like the one before it, yet each holds a single class."""
    steps = batches([one_hot(step % 4) for step in range(300)])
    assert len(found(RULE, Training(loss=SWINGING, steps=steps), tmp_path)) == 1


def test_half_sorted(tmp_path: Path) -> None:
    steps = batches([[0.4 * a + 0.15 for a in one_hot(step // 15 % 4)] for step in range(300)])
    assert len(found(RULE, Training(loss=SWINGING, steps=steps), tmp_path)) == 1


def test_samplers_that_choose_some_classes_for_each_batch_are_silent(tmp_path: Path) -> None:
    chance = random.Random(0)
    steps = batches([[0.5 * (k in chance.sample(range(4), 2)) for k in range(4)] for _ in range(300)])
    assert found(RULE, Training(loss=SWINGING, steps=steps), tmp_path) == []


@pytest.mark.parametrize("size", [2, 16, 256])
def test_random_batches_are_silent(tmp_path: Path, size: int) -> None:
    for seed in range(3):
        chance = random.Random(seed)
        drawn = [chance.choices(range(10), k=size) for _ in range(300)]
        steps = {"class_counts": [[float(d.count(k)) for k in range(10)] for d in drawn], "batch_size": size}
        assert found(RULE, Training(loss=SWINGING, noise=0.3, steps=steps), tmp_path / str(seed)) == []


def test_a_mix_that_changes_slowly_is_silent(tmp_path: Path) -> None:
    """A curriculum."""
    steps = batches([[0.25 + 0.05 * step / 300, 0.25, 0.25, 0.25 - 0.05 * step / 300] for step in range(300)])
    assert found(RULE, Training(steps=steps), tmp_path) == []


def targets(low: Sequence[float], width: float) -> Training:
    steps = {"target_min": list(low), "target_max": [value + width for value in low], "batch_size": 32}
    event = {"kind": "loss-input", "detail": {"loss": "mse_loss", "prediction_shape": [32, 1], "target_shape": [32, 1]}}
    return Training(loss=SWINGING, steps=steps, events=(event,))


def test_sorted_by_a_target_that_is_a_number(tmp_path: Path) -> None:
    (finding,) = found(RULE, targets([step % 40 for step in range(300)], 2.0), tmp_path)
    assert "span" in finding.message


def test_targets_in_random_order_or_that_drift_are_silent(tmp_path: Path) -> None:
    chance = random.Random(0)
    assert found(RULE, targets([chance.gauss(0, 0.3) for _ in range(300)], 4.0), tmp_path / "random") == []
    assert found(RULE, targets([chance.expovariate(1) ** 3 for _ in range(300)], 1.0), tmp_path / "tails") == []
    with pytest.raises(NotApplicable):
        found(RULE, targets([step * 0.1 for step in range(300)], 2.0), tmp_path / "drift")


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(events=(loss_input(),)), "too few"),
        (Training(loss=falling(10), steps={"class_counts": [one_hot(0)] * 10}), "too few"),
        (Training(steps=SORTED | {"optimizer": [step % 2 for step in range(300)]}), "optimizers"),
        (Training(steps=SORTED, manifest={"mode": "overfit-batch"}), "one batch"),
        (Training(steps=SORTED | {"batch_size": 2}), "too few"),  # tokens of sequences
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def in_blocks(index: int) -> tuple[Tensor, Tensor]:
    targets = torch.full((16,), index // 8 % 3)
    return F.one_hot(targets, 4) + 0.5 * torch.randn(16, 4), targets


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "sorted", F.cross_entropy, batch=in_blocks, steps=80))
    assert not says(RULE, recorded(tmp_path / "right", F.cross_entropy))
