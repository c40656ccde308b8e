"""Norms of gradients, parameters, updates and distances against tensors kept by the test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.trainings import read, train
from torch import Tensor, nn

from recorder.instruments.norms import norms


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(count)]


def test_every_norm_is_that_of_the_tensor(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    gradients: list[list[Tensor]] = []
    training = train(
        tmp_path / "run",
        model,
        batches(4),
        nn.CrossEntropyLoss(),
        lambda p: torch.optim.AdamW(p, lr=0.01),
        between=lambda m: gradients.append([p.grad.clone() for p in m.parameters()]),
    )
    layers = read(training.path, "layers").to_dicts()
    names = [name for name, _ in model.named_parameters()]
    for row in layers:
        step, i = row["step"], names.index(row["tensor"])
        before, first = training.parameters[step][i], training.parameters[0][i]
        assert row["grad_norm"] == pytest.approx(gradients[step][i].norm().item(), rel=1e-5)
        assert row["param_norm"] == pytest.approx(before.norm().item(), rel=1e-5)
        assert row["update_norm"] == pytest.approx(training.update(step)[i].norm().item(), rel=1e-5)
        assert row["distance"] == pytest.approx((before - first).norm().item(), rel=1e-5, abs=1e-7)
    for row in training.steps.to_dicts():
        total = torch.cat([g.flatten() for g in gradients[row["step"]]]).norm().item()
        assert row["grad_norm"] == pytest.approx(total, rel=1e-5)
        moved = torch.cat([d.flatten() for d in training.update(row["step"])]).norm().item()
        assert row["update_norm"] == pytest.approx(moved, rel=1e-5)


def test_a_tensor_without_gradient_has_null_not_zero(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3).requires_grad_(False))
    layers = read(train(tmp_path / "run", model, batches(3), nn.CrossEntropyLoss()).path, "layers").to_dicts()
    assert {row["tensor"] for row in layers if row["grad_norm"] is None} == {"1.weight", "1.bias"}
    assert all(row["update_norm"] == 0.0 for row in layers if row["tensor"].startswith("1."))


def test_non_finite_gradients_show_in_the_norm(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 3))
    poisoned = [(torch.full((8, 6), float("nan")), torch.zeros(8, dtype=torch.long))]
    steps = train(tmp_path / "run", model, poisoned, nn.CrossEntropyLoss()).steps
    assert steps["grad_norm"].is_nan().all()
    assert steps["loss"].is_nan().all()


def test_norms_of_sparse_and_half_precision_tensors() -> None:
    sparse = torch.sparse_coo_tensor([[0, 0, 2]], [3.0, 1.0, 3.0], (4,))
    assert [n.item() for n in norms([sparse, torch.tensor([3.0, 4.0])])] == [5.0, 5.0]
    big = torch.full((10_000,), 100.0, dtype=torch.float16)  # the square of its norm is beyond float16
    assert norms([big])[0].item() == pytest.approx(10_000.0)
    assert norms([]) == []


def test_parameters_that_are_replaced_or_join_later_are_told(tmp_path: Path) -> None:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)

    def replace(model: nn.Module) -> None:
        model.layer.weight = nn.Parameter(model.layer.weight.detach().clone())

    training = train(tmp_path / "run", Growing(), batches(3), nn.CrossEntropyLoss(), between=replace)
    assert any("layer.weight: not among the parameters" in reason for reason in training.reasons())
