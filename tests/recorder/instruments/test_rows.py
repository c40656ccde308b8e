"""Rows of weights, against those of tensors kept by the test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.trainings import read, train
from torch import Tensor, nn


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(count)]


def test_units_without_a_gradient_and_units_that_are_alike(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, last = nn.Linear(6, 4), nn.Linear(4, 3)
    model = nn.Sequential(first, nn.ReLU(), last)
    nn.init.constant_(last.weight, 0.5)
    with torch.no_grad():
        first.bias[1:3] = -100.0  # two units of four that can never fire
    gradients: list[Tensor] = []
    training = train(
        tmp_path / "run",
        model,
        batches(3),
        nn.CrossEntropyLoss(),
        between=lambda m: gradients.append(torch.clone(first.weight.grad)),  # type: ignore[arg-type]
    )
    rows = read(training.path, "layers").to_dicts()
    for row in rows:
        before = dict(zip(dict(model.named_parameters()), training.parameters[row["step"]], strict=True))
        if row["tensor"].endswith("bias"):
            assert row["silent_rows"] is None
            assert row["mean_row_norm"] is None
            continue
        weight = before[row["tensor"]]
        alike = weight.mean(0).expand_as(weight).norm().item()
        assert row["mean_row_norm"] == pytest.approx(alike, rel=1e-5)
        if row["tensor"] == "0.weight":
            silent = (gradients[row["step"]] == 0).all(1).float().mean().item()
            assert row["silent_rows"] == pytest.approx(silent)
            assert silent >= 0.5
    begin = next(row for row in rows if row["tensor"] == "2.weight")
    assert begin["mean_row_norm"] == pytest.approx(begin["param_norm"], rel=1e-6)


def test_half_precision_and_one_row(tmp_path: Path) -> None:
    """A tensor of one row has nothing that it could differ from; means of half-precision rows are taken in float32."""
    first = nn.Linear(6, 40, dtype=torch.bfloat16)
    model = nn.Sequential(first, nn.ReLU(), nn.Linear(40, 1, dtype=torch.bfloat16))
    nn.init.constant_(first.weight, 0.1)
    data = [(torch.randn(8, 6, dtype=torch.bfloat16), torch.randn(8, 1, dtype=torch.bfloat16))]
    training = train(tmp_path / "run", model, data, nn.MSELoss())
    rows = {row["tensor"]: row for row in read(training.path, "layers").to_dicts()}
    assert rows["0.weight"]["mean_row_norm"] == pytest.approx(rows["0.weight"]["param_norm"], rel=1e-5)
    assert rows["2.weight"]["mean_row_norm"] is None
    assert training.errors() == []
