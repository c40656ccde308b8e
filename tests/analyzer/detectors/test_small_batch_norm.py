"""ACT003."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.synthetic import Training, falling, flat, found
from support.trainings import train
from torch import nn

from analyzer.detectors.small_batch_norm import SmallBatchNorm
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = SmallBatchNorm()
PROBES = [step for step in range(300) if step < 100 or step % 16 == 0]


def norm(*values: int) -> dict[str, Any]:
    """A batch norm that averages over so many values, in turn."""
    over = [values[i % len(values)] for i in range(len(PROBES))]
    return {"step": PROBES, "module": ["1"] * len(PROBES), "training": True, "normalized_over": over}


SHORT = falling(300, floor=0.5)
FEW = Training(loss=SHORT, modules=norm(4), steps={"batch_size": 4, "micro_batches": 1})


def test_few_values(tmp_path: Path) -> None:
    (finding,) = found(RULE, FEW, tmp_path)
    assert (finding.severity, finding.value, finding.threshold) == ("warning", 4.0, 8.0)


def test_few_samples_of_many_pixels(tmp_path: Path) -> None:
    images = FEW.but(modules=norm(128), steps={"batch_size": 2, "micro_batches": 1})
    (finding,) = found(RULE, images, tmp_path)
    assert (finding.value, finding.unit) == (2.0, "samples")


def test_accumulated_micro_batches_are_no_larger_batch(tmp_path: Path) -> None:
    images = FEW.but(modules=norm(128), steps={"batch_size": 32, "micro_batches": 16})
    assert len(found(RULE, images, tmp_path)) == 1


def test_a_run_that_learned_all_the_same_deserves_a_note(tmp_path: Path) -> None:
    assert [item.severity for item in found(RULE, FEW.but(loss=falling(300)), tmp_path)] == ["note"]


@pytest.mark.parametrize(
    ("values", "batch"),
    [
        ((16,), 16),
        ((32, 32, 32, 2), 32),  # the last batch of an epoch is small
        ((64,), 4),
    ],
)
def test_near_misses(tmp_path: Path, values: tuple[int, ...], batch: int) -> None:
    near = FEW.but(modules=norm(*values), steps={"batch_size": batch, "micro_batches": 1})
    assert found(RULE, near, tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    noisy = Training(loss=flat(300), noise=0.5, seed=seed, modules=norm(64), steps={"batch_size": 64})
    assert found(RULE, noisy, tmp_path) == []


def test_not_applicable(tmp_path: Path) -> None:
    one = {"step": [0], "module": ["1"], "normalized_over": [2]}
    with pytest.raises(NotApplicable, match="three probes"):
        found(RULE, FEW.but(modules=one), tmp_path)


@pytest.mark.parametrize(("batch", "fires"), [(3, True), (32, False)])
def test_a_recorded_training(tmp_path: Path, batch: int, *, fires: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    data = [(torch.randn(batch, 6), torch.randint(0, 3, (batch,))) for _ in range(40)]
    train(tmp_path / "run", model, data, nn.CrossEntropyLoss(), preset="basic")
    assert bool(list(RULE.detect(open_run(tmp_path / "run")))) is fires
