"""Loads of made-up buildings: three targets at once, Huber or L1 loss, AdamW, one-cycle or cosine, batches by hand."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR
from zoo.program import Program, Record, Variant

FEATURES = 8
UNITS = torch.tensor([120.0, 3.0, 0.4, 25.0, 9000.0, 0.02, 1.0, 60.0])
OFFSETS = torch.tensor([300.0, 6.0, 0.5, 15.0, 20000.0, 0.1, 0.0, 180.0])


def buildings(count: int, seed: int, noise: float, outliers: float) -> tuple[Tensor, Tensor]:
    """Features in their units, and heating, cooling and the number of hours at peak load."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(count, FEATURES, generator=generator)
    heating = 900 + 250 * (z[:, 0] * torch.sigmoid(2 * z[:, 1]) - z[:, 3] + 0.5 * z[:, 2] * z[:, 4])
    cooling = 400 + 120 * (torch.sin(1.5 * z[:, 3]) + z[:, 5].abs() + 0.4 * z[:, 6] * z[:, 0])
    peak = (4 * (z[:, 2] + torch.cos(2 * z[:, 7]) + 0.5 * z[:, 4])).clamp(min=0).floor()
    y = torch.stack([heating, cooling, peak], dim=1)
    spread = torch.tensor([250.0, 120.0, 3.0])
    y[:, :2] += noise * spread[:2] * torch.randn(count, 2, generator=generator)
    wrong = torch.rand(count, generator=generator) < outliers
    y[wrong, :2] += 8 * spread[:2] * torch.randn(int(wrong.sum()), 2, generator=generator)
    return OFFSETS + UNITS * z, y


class Standardiser:
    def __init__(self, values: Tensor, enabled: bool = True) -> None:
        self.mean = values.mean(dim=0) if enabled else torch.zeros(values.shape[1])
        self.std = values.std(dim=0) if enabled else torch.ones(values.shape[1])

    def __call__(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std


def network(activation: str, gain: float, norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width_in, width_out in ((FEATURES, 64), (64, 64)):
        linear = nn.Linear(width_in, width_out)
        with torch.no_grad():
            linear.weight.mul_(gain)
        layers.append(linear)
        if norm:
            layers.append(nn.BatchNorm1d(width_out))
        layers.append(nn.SiLU() if activation == "silu" else nn.Tanh())
    return nn.Sequential(*layers, nn.Linear(64, 3))


def r2(predicted: Tensor, y: Tensor) -> float:
    rest = (predicted - y).square().sum(dim=0) / (y - y.mean(dim=0)).square().sum(dim=0)
    return float((1 - rest).mean())


def train(
    record: Record,
    seed: int,
    loss_fn: nn.Module | None = None,
    rate: float = 1.2e-2,
    schedule: str = "one-cycle",
    by: str = "step",
    batch: int = 64,
    steps: int = 320,
    count: int = 640,
    noise: float = 0.15,
    outliers: float = 0.0,
    activation: str = "silu",
    gain: float = 1.0,
    norm: bool = False,
    weight_decay: float = 1e-2,
    scales_inputs: bool = True,
    scales_targets: bool = True,
    peaks: str = "counts",
    pairs: str = "all-at-once",
) -> float:
    torch.manual_seed(seed)
    (x, y), (test_x, test_y) = buildings(count, 11, noise, outliers), buildings(600, 12, 0.0, 0.0)
    if peaks != "counts":
        logarithm = torch.log1p if peaks == "log1p" else torch.log
        y[:, 2] = logarithm(y[:, 2])
        test_y[:, 2] = torch.log1p(test_y[:, 2])
    to_x, to_y = Standardiser(x, scales_inputs), Standardiser(y, scales_targets)
    x, y, test_x, test_y = to_x(x), to_y(y), to_x(test_x), to_y(test_y)

    model = network(activation, gain, norm)
    huber = nn.HuberLoss(delta=1.0) if loss_fn is None else loss_fn
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=weight_decay)
    epoch_steps = math.ceil(count / batch)
    scheduler: LRScheduler
    if schedule == "one-cycle":
        scheduler = OneCycleLR(optimizer, max_lr=rate, total_steps=steps + 1, pct_start=0.2)
    else:
        scheduler = CosineAnnealingLR(optimizer, T_max=steps, eta_min=rate / 100)

    done = 0
    with record(model, optimizer, huber) as recorder:
        while done < steps:
            model.train()
            for rows in torch.randperm(count).split(batch)[: steps - done]:
                with recorder.step() as step:
                    predicted = model(x[rows])
                    if pairs == "one-by-one":  # one loss for each target, (batch, 1) beside (batch,)
                        losses = [huber(predicted[:, i : i + 1], y[rows, i]) for i in range(3)]
                        loss = torch.stack(losses).mean()
                    else:
                        loss = huber(predicted, y[rows])
                    step.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                done += 1
                if by == "step" or done % epoch_steps == 0:
                    scheduler.step()
                if done % 40 == 0:
                    model.eval()
                    with torch.no_grad(), recorder.evaluate("valid"):
                        errors = (model(test_x) - test_y).abs().mean(dim=0)
                    recorder.log("valid", mae_heating=errors[0], mae_cooling=errors[1], mae_peak=errors[2])
                    model.train()
    model.eval()
    with torch.no_grad():
        return r2(model(test_x), test_y)


PROGRAM = Program(
    "building-loads",
    train,
    (
        Variant("one-cycle"),
        Variant("cosine", {"schedule": "cosine", "noise": 0.5}),
        Variant("tanh-l1", {"activation": "tanh", "loss_fn": nn.L1Loss()}),
        Variant("log1p", {"peaks": "log1p"}),
        Variant("outliers", {"outliers": 0.02, "noise": 0.3}),
        Variant("small-batches", {"batch": 4, "rate": 8e-3, "schedule": "cosine", "steps": 480}),
        Variant("target-by-target", {"pairs": "one-by-one"}, "silent-broadcast", "one-cycle"),
        Variant("raw-targets", {"scales_targets": False}, "unnormalised-targets", "one-cycle"),
        Variant("raw-features", {"scales_inputs": False}, "unnormalised-inputs", "one-cycle"),
        Variant("one-cycle-by-epoch", {"by": "epoch"}, "schedule-rhythm", "one-cycle", also=("rate-too-small",)),
        Variant(
            "batch-norm-over-4",
            {"batch": 4, "rate": 8e-3, "schedule": "cosine", "steps": 480, "norm": True},
            "small-batch-norm",
            "small-batches",
        ),
        Variant(
            "tanh-weights-x30",
            {"activation": "tanh", "loss_fn": nn.L1Loss(), "gain": 30.0},
            "saturated-units",
            "tanh-l1",
            also=("init-too-large",),
        ),
        Variant("log-of-zero", {"peaks": "log"}, "nonfinite", "log1p"),
        Variant("batches-of-2", {"batch": 2, "schedule": "cosine", "noise": 0.5}, "batch-too-small", "cosine"),
    ),
)
