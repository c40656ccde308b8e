"""UPD005."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import tensor_entries
from support.synthetic import ByLayer, Training, found
from support.trainings import train
from torch import nn

from analyzer.detectors.bias_before_norm import BiasBeforeNorm
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = BiasBeforeNorm()
NAMES = ["a.weight", "a.bias", "b.weight", "b.bias", "c.weight", "c.bias"]


def model(*types: str, **changes: Any) -> dict[str, Any]:
    """Modules a, b and c of these types, in a container."""
    tensors = [entry | changes for entry in tensor_entries(NAMES)]
    modules = [{"name": "", "type": "Sequential"}, *({"name": n, "type": t} for n, t in zip("abc", types, strict=True))]
    return {"tensors": tensors, "modules": modules}


def idle(ratio: float) -> ByLayer:
    """The first bias gets so large a gradient, relative to that of its weight."""
    return lambda step, layer: 0.05 * (ratio if layer == 1 else 1.0)


NORMED = Training(names=NAMES, gradient=idle(1e-7), manifest=model("Linear", "BatchNorm1d", "Linear"))


def test_a_bias_that_is_taken_out_again(tmp_path: Path) -> None:
    (finding,) = found(RULE, NORMED, tmp_path)
    assert (finding.severity, finding.tensors) == ("note", ("a.bias",))


@pytest.mark.parametrize(
    "training",
    [
        NORMED.but(gradient=idle(0.02)),  # the batch norm is in evaluation mode
        NORMED.but(gradient=lambda step, layer: 0.0),  # nothing gets a gradient
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize(
    "manifest", [model("Linear", "ReLU", "Linear"), model("Linear", "BatchNorm1d", "Linear", requires_grad=False)]
)
def test_not_applicable(tmp_path: Path, manifest: dict[str, Any]) -> None:
    with pytest.raises(NotApplicable, match="right before"):
        found(RULE, NORMED.but(manifest=manifest), tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert found(RULE, NORMED.but(gradient=idle(0.1), noise=0.5, seed=seed), tmp_path) == []


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(8), nn.LayerNorm(8)])
def test_a_recorded_training(tmp_path: Path, norm: nn.Module) -> None:
    torch.manual_seed(0)
    data = [(torch.randn(16, 6), torch.randint(0, 3, (16,))) for _ in range(20)]
    network = nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 3))
    train(tmp_path / "run", network, data, nn.CrossEntropyLoss(), preset="basic")
    run = open_run(tmp_path / "run")
    if isinstance(norm, nn.BatchNorm1d):
        assert [item.tensors for item in RULE.detect(run)] == [("0.bias",)]
    else:
        with pytest.raises(NotApplicable):
            list(RULE.detect(run))
