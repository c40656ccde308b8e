"""Delivery times from a table: a network that predicts a mean and a variance. SGD with momentum, StepLR by the epoch.

The table has eight columns in their own units, and noise that grows with the distance. Minutes are standardised; the
outcome is the log likelihood per delivery, in standardised minutes whatever the training used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


@dataclass
class Table:
    x: Tensor
    y: Tensor  # (rows,)


def deliveries(rows: int, seed: int, missing: float) -> Table:
    """A trip's distance, weight, stops, rain, hour, day, age of the vehicle, floor. Sentinels where missing."""
    draw = np.random.default_rng(seed)
    distance, weight = draw.gamma(3.0, 4000.0, rows), draw.lognormal(1.0, 0.8, rows)
    stops, rain = draw.poisson(3.0, rows), draw.exponential(0.7, rows) * (draw.random(rows) < 0.3)
    hour, day = draw.uniform(6, 22, rows), draw.integers(0, 7, rows)
    age, floor = draw.uniform(0, 15, rows), draw.integers(0, 9, rows)
    rush = np.exp(-((hour - 8.5) ** 2) / 2) + np.exp(-((hour - 17.5) ** 2) / 3)
    mean = 5 + distance / 500 * (1 + 0.5 * rush * (day < 5)) + 3 * stops + 4 * rain + 0.6 * floor * (weight > 2)
    minutes = mean + draw.normal(size=rows) * (1 + distance / 2500 + 2 * rush)
    columns = np.stack([distance, weight, stops, rain, hour, day, age, floor], axis=1).astype(np.float64)
    columns[draw.random(columns.shape) < missing] = -9999.0
    return Table(torch.tensor(columns, dtype=torch.float32), torch.tensor(minutes, dtype=torch.float32))


class Gaussian(nn.Module):
    """A trunk with two heads."""

    def __init__(self, width: int, depth: int, activation: str, norm: str, variance: str) -> None:
        super().__init__()
        made = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "softplus": nn.Softplus}[activation]
        layers: list[nn.Module] = []
        for i in range(depth):
            layers.append(nn.Linear(width if i else 8, width))
            if norm != "none":
                layers.append(nn.LayerNorm(width) if norm == "layer" else nn.BatchNorm1d(width))
            layers.append(made())
        self.trunk = nn.Sequential(*layers)
        self.mean, self.spread = nn.Linear(width, 1), nn.Linear(width, 1)
        self.variance = variance

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.trunk(x)
        raw = self.spread(h)
        if self.variance == "softplus":
            return self.mean(h), nn.functional.softplus(raw) + 1e-3
        if self.variance == "log":
            return self.mean(h), raw.clamp(-8, 8).exp()
        return self.mean(h), (raw + 1.0).sqrt() ** 2  # by way of the deviation; nothing keeps it positive


def log_likelihood(mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
    return -0.5 * (math.log(2 * math.pi) + variance.log() + (y - mean) ** 2 / variance)


def train(
    record: Record,
    seed: int,
    lr: float = 0.01,
    momentum: float = 0.9,
    gamma: float = 0.3,
    step_by: str = "epoch",
    rows: int = 640,
    batch: int = 64,
    epochs: int = 36,
    width: int = 32,
    depth: int = 2,
    activation: str = "relu",
    norm: str = "none",
    variance: str = "softplus",
    loss: str = "nll",
    scales_x: bool = True,
    scales_y: bool = True,
    column: bool = True,
    clip: float | None = 5.0,
    decay: float = 1e-4,
    missing: float = 0.0,
    shuffled: bool = True,
    logs: str = "nll",
) -> float:
    torch.manual_seed(seed)
    data, held_out = deliveries(rows, 1, missing), deliveries(500, 2, 0.0)
    clean = deliveries(rows, 1, 0.0)
    centre, scale = clean.x.mean(dim=0), clean.x.std(dim=0)
    middle, spread = clean.y.mean(), clean.y.std()
    x, test_x = ((t - centre) / scale if scales_x else t for t in (data.x, held_out.x))
    y, test_y = ((t - middle) / spread if scales_y else t for t in (data.y, held_out.y))
    if not shuffled:
        order = y.argsort()
        x, y = x[order], y[order]

    net = Gaussian(width, depth, activation, norm, variance)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=momentum, weight_decay=decay)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=epochs // 3, gamma=gamma)
    criterion = nn.GaussianNLLLoss(full=True) if loss == "torch" else None

    def objective(xs: Tensor, ys: Tensor) -> Tensor:
        mean, var = net(xs)
        target = ys.unsqueeze(1) if column else ys
        if criterion is not None:
            out: Tensor = criterion(mean, target, var)
            return out
        likelihood = log_likelihood(mean, var, target).mean()
        return likelihood if loss == "likelihood" else -likelihood

    def score() -> float:
        net.eval()
        with torch.no_grad():
            mean, var = net(test_x)
            reached = log_likelihood(mean, var, test_y.unsqueeze(1)).mean()
        net.train()
        return float(reached) + (0.0 if scales_y else float(spread.log()))

    with record(net, optimizer, criterion, hparams={"lr": lr, "momentum": momentum, "batch": batch}) as recorder:
        for epoch in range(epochs):
            order = torch.randperm(len(x)) if shuffled else torch.arange(len(x))
            total = 0.0
            for i in range(0, len(x), batch):
                rows_now = order[i : i + batch]
                with recorder.step() as step:
                    value = objective(x[rows_now], y[rows_now])
                    step.backward(value)
                if clip is not None:
                    nn.utils.clip_grad_norm_(net.parameters(), clip)
                optimizer.step()
                optimizer.zero_grad()
                total += float(value.detach()) * len(rows_now)
                if step_by == "batch":
                    scheduler.step()
            if step_by == "epoch":
                scheduler.step()
            if logs == "nll":
                recorder.log("train", epoch=epoch, nll=total / len(x))
                recorder.log("valid", epoch=epoch, loss=-score())
    return score()


FOUR = {"batch": 4, "epochs": 3, "lr": 5e-3, "norm": "layer"}
DEEP = {"depth": 6, "norm": "layer", "clip": None}

PROGRAM = Program(
    "nll-table",
    train,
    (
        Variant("two-heads"),
        Variant("torch-loss-log-variance", {"loss": "torch", "variance": "log", "logs": "none"}),
        Variant("full-batch", {"batch": 640, "epochs": 240, "lr": 0.02}),
        Variant("layer-norm-batch-of-four", FOUR),
        Variant("deep-with-layer-norm", DEEP),
        Variant("tanh-converged-continued", {"activation": "tanh", "width": 16, "epochs": 48, "gamma": 0.1}),
        Variant("variance-unbounded", {"variance": "raw", "clip": None}, "nonfinite", "two-heads"),
        Variant("likelihood-minimised", {"loss": "likelihood"}, "flipped-sign", "two-heads"),
        Variant("targets-not-a-column", {"column": False}, "silent-broadcast", "two-heads"),
        Variant("minutes-as-they-are", {"scales_y": False}, "unnormalised-targets", "two-heads"),
        Variant("columns-as-they-are", {"scales_x": False}, "unnormalised-inputs", "two-heads"),
        Variant("sentinels", {"missing": 0.01}, "spike", "two-heads", also=("unnormalised-inputs",)),
        Variant("clip-0.01", {"clip": 0.01}, "clipping-too-tight", "two-heads"),
        Variant(
            "deep-sigmoids",
            DEEP | {"norm": "none", "activation": "sigmoid"},
            "vanishing-gradients",
            "deep-with-layer-norm",
        ),
        Variant("batch-norm-batch-of-four", FOUR | {"norm": "batch"}, "small-batch-norm", "layer-norm-batch-of-four"),
        Variant(
            "momentum-0.999", {"momentum": 0.999, "lr": 0.03}, "oscillating", "two-heads", also=("rate-too-large",)
        ),
    ),
)
