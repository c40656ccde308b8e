"""Traces and the largest eigenvalue against Cockpit's reference values and against full Hessians."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from support.references import VALUES, reference_training
from support.trainings import read, train
from torch import Tensor, nn

from recorder.hessian import Hessian, block_traces, largest_eigenvalue
from recorder.instruments.curvature import HessianTrace, LargestEigenvalue


def symmetric(size: int, seed: int) -> Tensor:
    matrix = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return matrix + matrix.T


@given(st.integers(1, 24), st.integers(0, 10_000))
def test_lanczos_finds_the_largest_algebraic_eigenvalue(size: int, seed: int) -> None:
    matrix = symmetric(size, seed) - 3 * torch.eye(size, dtype=torch.float64)  # most eigenvalues are negative
    start = torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1))
    value, vector, residual = largest_eigenvalue(matrix.__matmul__, start, size)
    assert value.item() == pytest.approx(torch.linalg.eigvalsh(matrix)[-1].item(), rel=1e-6, abs=1e-8)
    assert residual.item() == pytest.approx((matrix @ vector - value * vector).norm().item(), abs=1e-5)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 10_000))
def test_block_traces_are_exact_for_every_sign_on_diagonal_matrices(sizes: list[int], seed: int) -> None:
    diagonal = torch.randn(sum(sizes), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    signs = [torch.where(torch.rand(sum(sizes)) < 0.5, -1.0, 1.0).double()]
    found = block_traces(lambda v: diagonal * v, sizes, signs)
    torch.testing.assert_close(found, torch.stack([part.sum() for part in diagonal.split(sizes)]))


@pytest.mark.parametrize("file", sorted(VALUES.glob("*.json")), ids=lambda file: file.stem)
def test_exact_traces_equal_cockpits(file: Path, tmp_path: Path) -> None:
    """Over all unit vectors instead of random signs, the estimate is the exact trace that Cockpit computes."""
    reference = json.loads(file.read_text())
    training = reference_training(tmp_path / "run", reference)
    for step, expected in reference["values_per_step"].items():
        hessian = at(training.model, training.parameters[int(step)], reference, int(step))
        units = torch.eye(sum(hessian.sizes), dtype=torch.float64)
        traces = block_traces(hessian.__matmul__, hessian.sizes, list(units)) * len(units)
        assert traces.tolist() == pytest.approx(expected["HessTrace"], rel=1e-9, abs=1e-12)


def at(model: nn.Module, parameters: list[Tensor], reference: dict[str, list[object]], step: int) -> Hessian:
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(value)
    x = torch.tensor(reference["inputs"][step], dtype=torch.float64)
    loss = F.cross_entropy(model(x), torch.tensor(reference["targets"][step]))
    return Hessian(loss, list(model.parameters()))


@pytest.mark.parametrize("file", sorted(VALUES.glob("*.json")), ids=lambda file: file.stem)
def test_the_recorded_eigenvalue_equals_the_reference_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = json.loads(file.read_text())
    monkeypatch.setattr(LargestEigenvalue, "ITERATIONS", 30)
    steps = reference_training(tmp_path / "run", reference, preset="full", instruments={"largest-eigenvalue": 1}).steps
    expected = [reference["hessian_extreme_eigenvalues"][str(step)]["LA"] for step in range(len(steps))]
    assert steps["hess_max_ev"].to_list() == pytest.approx(expected, rel=1e-3)
    assert (steps["hess_max_ev_residual"] < 0.05 * steps["hess_max_ev"]).all()


def test_recorded_traces_scatter_around_the_exact_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HessianTrace, "VECTORS", 400)
    reference = json.loads((VALUES / "logreg-sgd.json").read_text())
    training = reference_training(tmp_path / "run", reference, preset="business", instruments={"hessian-trace": 1})
    expected = [sum(reference["values_per_step"][str(step)]["HessTrace"]) for step in range(6)]
    assert training.steps["hess_trace"].to_list() == pytest.approx(expected, rel=0.1)
    layers = read(training.path, "layers")
    assert layers["hess_trace"].is_not_null().all()


def test_curvature_is_probed_sparsely(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    batches = [(torch.randn(4, 4), torch.randint(0, 3, (4,))) for _ in range(70)]
    steps = train(tmp_path / "run", model, batches, nn.CrossEntropyLoss(), preset="full", every=2, dense_steps=4).steps
    having = [s for s, v in zip(steps["step"], steps["hess_max_ev"], strict=True) if v is not None]
    assert having == [0, 32, 64]


@pytest.mark.parametrize("sizes", [(6, 6), (6, 6, 3)])
def test_the_first_micro_batch_stands_for_all(sizes: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    inputs, targets = torch.randn(6, 4, dtype=torch.float64), torch.randint(0, 3, (6,))
    settings = {"preset": "full", "optimizer": lambda p: torch.optim.SGD(p, lr=0.0)}
    parts = [(inputs[:size], targets[:size]) for size in sizes]
    once = train(tmp_path / "once", model, [(inputs, targets)], nn.CrossEntropyLoss(), **settings).steps.to_dicts()[0]
    whole = train(tmp_path / "parts", model, [parts], nn.CrossEntropyLoss(), **settings).steps.to_dicts()[0]
    for name in ("hess_trace", "hess_max_ev", "hess_max_ev_residual"):
        assert whole[name] == pytest.approx(once[name] * sum(sizes) / sizes[0] / len(sizes), rel=1e-9)


def test_what_cannot_be_differentiated_twice_is_null_with_the_reason(tmp_path: Path) -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            return gradient * 2

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return Once.apply(torch.tanh(self.layer(x)))

    training = train(
        tmp_path / "run", Net(), [(torch.randn(4, 4), torch.randint(0, 3, (4,)))], nn.CrossEntropyLoss(), preset="full"
    )
    assert training.steps["hess_max_ev"].is_null().all()
    assert any("cannot be differentiated twice" in reason for reason in training.reasons())
    assert training.steps["grad_norm"].is_not_null().all()
