"""Prices of houses whose spread grows with their size, by a network and the Huber loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from zoo.program import Program, Variant


def houses(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Six standardised features and a price in thousands: dearer houses scatter more."""
    x = torch.randn(count, 6, generator=generator)
    size = x[:, 0] + 0.5 * x[:, 1]
    price = 220 + 60 * size + 25 * torch.sin(2 * x[:, 2]) + 20 * x[:, 3] * x[:, 4]
    spread = 12 * torch.exp(0.4 * size)
    return x, price + spread * torch.randn(count, generator=generator)


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    standardise: bool = True,
    loss: str = "huber",
    keep_column: bool = False,
    method: str = "adam",
    rate: float = 3e-3,
    batch: int = 64,
    steps: int = 800,
    double: bool = False,
    feature_scale: float = 1.0,
    resume_at: int | None = None,
    final_rate: float | None = None,
    slow_from: int | None = None,
) -> float:
    """Share of the variance of 1000 new prices that is explained."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, price = houses(2000, generator)
    x_test, price_test = houses(1000, generator)
    x, x_test = (each * torch.tensor([feature_scale, 1, 1, 1, 1, 1]) for each in (x, x_test))
    centre, scale = (price.mean(), price.std()) if standardise else (torch.zeros(()), torch.ones(()))
    y = ((price - centre) / scale)[:, None]
    if double:
        x, y, x_test = x.double(), y.double(), x_test.double()

    model = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 24), nn.Tanh(), nn.Linear(24, 1))
    model.to(x.dtype)
    criterion: nn.Module = nn.HuberLoss() if loss == "huber" else nn.MSELoss()
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    if method == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def explained() -> float:
        model.eval()
        with torch.no_grad():
            predicted = model(x_test)[:, 0] * scale + centre
        model.train()
        return 1 - float(((predicted - price_test) ** 2).mean() / price_test.var())

    def one_leg(recorder: Any, first: int, last: int) -> None:
        for it in range(first, last):
            if slow_from is not None and it >= slow_from and it % 8 == 0:
                time.sleep(0.25)  # the shared disk answers late
            chosen = torch.randint(len(x), (batch,))
            optimizer.zero_grad()
            with recorder.step() as step:
                predicted = model(x[chosen])
                target = y[chosen, 0] if keep_column else y[chosen]
                step.backward(criterion(predicted, target))
            optimizer.step()
            if final_rate is not None and it == steps // 2:
                optimizer.param_groups[0]["lr"] = final_rate
            if it % 50 == 49:
                with recorder.evaluate("valid"):
                    recorder.log("valid", r2=explained())

    with record(model, optimizer, criterion) as recorder:
        one_leg(recorder, 0, resume_at or steps)
    if resume_at:
        with record(model, optimizer, criterion, resume=True, first_step=resume_at) as recorder:
            one_leg(recorder, resume_at, steps)
    return explained()


PROGRAM = Program(
    "house-prices",
    train,
    (
        Variant("huber"),
        Variant("float64", {"double": True}),
        Variant("converged-and-continued", {"steps": 2000, "final_rate": 3e-4}),
        Variant("resumed", {"resume_at": 350}),
        Variant("small-rate-long", {"rate": 4e-4, "steps": 2000}),
        Variant("mse", {"loss": "mse"}),
        Variant("broadcast", {"keep_column": True, "loss": "mse"}, "silent-broadcast", "mse"),
        Variant("raw-prices", {"standardise": False, "loss": "mse"}, "unnormalised-targets", "mse"),
        Variant("area-in-square-feet", {"feature_scale": 1500.0}, "unnormalised-inputs", "huber"),
        Variant("sgd", {"method": "sgd", "rate": 0.05, "loss": "mse"}),
        Variant("batch-of-1", {"method": "sgd", "rate": 0.05, "batch": 1, "loss": "mse"}, "batch-too-small", "sgd"),
        Variant("batch-of-2", {"method": "sgd", "rate": 0.05, "batch": 2, "loss": "mse"}, "batch-too-small", "sgd"),
        Variant("rate-over-1000", {"rate": 3e-6}, "rate-too-small", "huber"),
        Variant("slow-disk", {"slow_from": 700}, "throughput", "huber"),
    ),
)
