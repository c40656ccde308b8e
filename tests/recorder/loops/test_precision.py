"""Precisions, gradient scalers and compiled models: values within what the precision allows, or the reason for null."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.loops import Case, Each, Log, fly_both, one_by_one
from support.trainings import read
from support.truth import check_null, check_values, reasons
from torch import Tensor, nn

N = 6
STEPS = 4
Batch = tuple[Tensor, Tensor]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def batch() -> Batch:
    return torch.randn(N, 4), torch.randint(3, (N,))


def classify(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch[0].to(next(model.parameters()).dtype)), batch[1])


def in_double(data: Batch) -> Each:
    """Losses of the samples by the same model in double precision."""
    return one_by_one(classify, data)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def check_in_double(path: Path, log: Log, rel: float, only: Any = None) -> None:
    """Values against those of a loop over samples in double precision, at the parameters of the recorded run."""
    log.model.double()
    for moment in log.moments:
        moment.state = {name: t.double() if t.is_floating_point() else t for name, t in moment.state.items()}
    check_values(path, log, rel, only, exact=False)


def single(log: Log) -> None:
    for _ in range(STEPS):
        data = batch()
        log.optimizer.zero_grad()
        with log.step() as backward:
            backward(classify(log.model, data), in_double(data))
        log.optimizer.step()


def test_single_precision(tmp_path: Path) -> None:
    check_in_double(tmp_path / "run", fly_both(tmp_path / "run", mlp, sgd, single), 1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    def wide() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3)).to(dtype)

    log = fly_both(tmp_path / "run", wide, sgd, single)
    check_in_double(tmp_path / "run", log, 0.05, only=[0, 1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_automatic_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    def loop(log: Log) -> None:
        for _ in range(STEPS):
            data = batch()
            log.optimizer.zero_grad()
            with log.step() as backward:
                with torch.autocast("cpu", dtype):
                    loss = classify(log.model, data)
                backward(loss, in_double(data))
            log.optimizer.step()

    check_in_double(tmp_path / "run", fly_both(tmp_path / "run", mlp, sgd, loop), 0.05)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("clip", [True, False])
def test_a_scaler_that_skips_a_step(enabled: bool, clip: bool, tmp_path: Path) -> None:
    """The factor is in no value; a skipped step has no update, and the one after it no end of one."""

    def loop(log: Log) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=2, enabled=enabled)
        for index in range(6):
            data = batch()
            log.optimizer.zero_grad()
            with log.step() as backward:
                loss = classify(log.model, data) * (math.inf if index == 2 and enabled else 1.0)
                backward(loss, in_double(data), scaler=scaler)
            if clip:
                scaler.unscale_(log.optimizer)
                nn.utils.clip_grad_norm_(log.model.parameters(), 0.1)
            scaler.step(log.optimizer)
            scaler.update()

    log = fly_both(tmp_path / "run", mlp, sgd, loop)
    steps = read(tmp_path / "run", "steps")
    assert steps["skipped"].fill_null(value=False).to_list() == [index == 2 and enabled for index in range(6)]
    check_in_double(tmp_path / "run", log, 1e-4, only=[0, 1, 3, 4, 5])
    if enabled:
        assert steps["start_slope"][2] is None
        assert steps["end_slope"][3] is None
        assert steps["loss_scale"].to_list() == [2.0**12, 2.0**12, 2.0**13, 2.0**12, 2.0**12, 2.0**13]


@pytest.mark.parametrize("inner", [True, False])
def test_compiled(inner: bool, tmp_path: Path) -> None:
    """The model, or a part of it: from outside everything is seen, from inside nothing."""

    def model() -> nn.Module:
        torch._dynamo.reset()
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
        if not inner:
            return torch.compile(net, backend="aot_eager")
        net[0] = torch.compile(net[0], backend="aot_eager")
        return net

    def loop(log: Log) -> None:
        for _ in range(STEPS):
            data = batch()
            log.optimizer.zero_grad()
            with log.step() as backward:
                backward(F.cross_entropy(log.model(data[0]), data[1]))
            log.optimizer.step()

    fly_both(tmp_path / "run", model, sgd, loop)
    check_null(tmp_path / "run", "compiled")
    steps = read(tmp_path / "run", "steps")
    assert steps["hess_trace"].is_null().all()
    assert steps["update_norm"].is_not_null().all()
    assert any("loss_var" in reason for reason in reasons(tmp_path / "run"))


class Waves(nn.Module):
    """Complex parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3, dtype=torch.complex128)
        self.phase = nn.Parameter(torch.randn(3, dtype=torch.complex128))

    def forward(self, x: Tensor) -> Tensor:
        return (self.first(x.to(torch.complex128)) * self.phase).abs()


def test_complex_parameters(tmp_path: Path) -> None:
    """Training is the same; gradients of samples are null, with the reason."""

    def losses(model: nn.Module, data: Batch) -> Iterator[Tensor]:
        return (F.cross_entropy(model(data[0][i : i + 1]), data[1][i : i + 1]) for i in range(N))

    case = Case(Waves, batch, lambda model, data: F.cross_entropy(model(data[0]), data[1]), losses)
    fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_null(tmp_path / "run", "complex")
