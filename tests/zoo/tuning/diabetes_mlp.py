"""Diabetes progression, a small network. Regression with the mean squared error on an endless stream of batches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


def endless(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        for chosen in torch.randperm(len(x)).split(size):
            if len(chosen) == size:
                yield x[chosen], y[chosen]


def train(
    record: Record,
    seed: int,
    lr: float = 0.01,
    batch: int = 32,
    steps: int = 250,
    width: int = 12,
    optimizer: str = "sgd",
    scaled: bool = True,
    column: bool = True,
    leaked: bool = False,
    sign: float = 1.0,
    l1: float = 0.0,
    output: str = "linear",
    samples: int | None = None,
    huber: bool = False,
    valid: bool = True,
    root: bool = False,
) -> float:
    torch.manual_seed(seed)
    values, progression = load_diabetes(return_X_y=True, scaled=False)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    if leaked:
        values[:, 3] = (progression - progression.mean()) / progression.std()
    x, test_x, y, test_y = (
        torch.tensor(each, dtype=torch.float32)
        for each in train_test_split(values, progression, test_size=0.3, random_state=0)
    )
    mean, std = y.mean(), y.std()
    if scaled:
        y, test_y = (y - mean) / std, (test_y - mean) / std
    x, y = x[:samples], y[:samples]

    activation: nn.Module = {"linear": nn.Identity(), "sigmoid": nn.Sigmoid(), "relu": nn.ReLU()}[output]
    net = nn.Sequential(nn.Linear(10, width), nn.Tanh(), nn.Linear(width, 1), activation)
    if optimizer == "sgd":
        opt: torch.optim.Optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    elif optimizer == "gd":
        opt = torch.optim.SGD(net.parameters(), lr=lr)
    elif optimizer == "rmsprop":
        opt = torch.optim.RMSprop(net.parameters(), lr=lr)
    else:
        opt = torch.optim.Adam(net.parameters(), lr=lr)

    def loss_of(prediction: Tensor, target: Tensor) -> Tensor:
        target = target[:, None] if column else target  # else (batch, 1) against (batch,): all pairs
        if huber:
            return F.smooth_l1_loss(prediction, target)
        if root:  # a root mean squared error for each sample
            return (prediction - target).square().sum(dim=1).add(1e-4).sqrt().mean()
        return F.mse_loss(prediction, target)

    batches = endless(x, y, min(batch, len(x)))
    with record(net, opt) as recorder:
        for i in range(steps):
            features, target = next(batches)
            opt.zero_grad()
            with recorder.step() as step:
                loss = sign * loss_of(net(features), target)
                if l1:
                    loss = loss + l1 * sum(p.abs().sum() for p in net.parameters())
                step.backward(loss)
                opt.step()
            if valid and i % 20 == 0:
                with recorder.evaluate("valid"), torch.no_grad():
                    recorder.log("valid", loss=F.mse_loss(net(test_x), test_y[:, None]))

    with torch.no_grad():
        error = F.mse_loss(net(test_x), test_y[:, None])
    return -float(error if scaled else error / std**2)


FULL_BATCH = {"optimizer": "gd", "batch": 309, "width": 4, "lr": 0.1, "l1": 0.01, "steps": 1300}

PROGRAM = Program(
    "diabetes-mlp",
    train,
    (
        Variant("plain"),
        Variant("huber", {"huber": True}),
        Variant("root", {"root": True, "valid": False}),
        Variant("adam", {"optimizer": "adam", "lr": 3e-3}),
        Variant("rmsprop", {"optimizer": "rmsprop", "lr": 2e-3, "valid": False}),
        Variant("full-batch", FULL_BATCH),
        Variant("full-batch-at-the-edge", FULL_BATCH | {"lr": 0.6}, "edge-of-stability", "full-batch"),
        Variant("small-l1", {"l1": 1e-3}),
        Variant("raw-targets", {"scaled": False}, "unnormalised-targets", "plain"),
        Variant(
            "raw-targets-rmsprop",
            {"scaled": False, "optimizer": "rmsprop", "lr": 2e-3},
            "unnormalised-targets",
            "rmsprop",
        ),
        Variant("raw-targets-adam", {"scaled": False, "optimizer": "adam", "lr": 3e-3}, "unnormalised-targets", "adam"),
        Variant("broadcast", {"column": False}, "silent-broadcast", "plain"),
        Variant("broadcast-adam", {"column": False, "optimizer": "adam", "lr": 3e-3}, "silent-broadcast", "adam"),
        Variant("negated", {"sign": -1.0}, "flipped-sign", "plain"),
        Variant("negated-huber", {"sign": -1.0, "huber": True}, "flipped-sign", "huber"),
        Variant("leaked", {"leaked": True}, "leaked-answer", "plain"),
        Variant("l1-x300", {"l1": 0.3}, "too-much-regularisation", "small-l1"),
        Variant("l1-x1000", {"l1": 1.0}, "too-much-regularisation", "small-l1"),
        Variant("wide", {"width": 200, "steps": 1200, "optimizer": "adam", "lr": 5e-3}, "overfitting", "adam"),
        Variant(
            "few-samples",
            {"width": 64, "samples": 40, "steps": 600, "optimizer": "adam", "lr": 5e-3},
            "overfitting",
            "adam",
        ),
        Variant("sigmoid-output", {"output": "sigmoid"}, "stalled", "plain", also=("saturated-units",)),
        Variant("relu-output", {"output": "relu"}, "stalled", "plain", also=("dead-units",)),
        Variant("rate-x30", {"lr": 0.3}, "rate-too-large", "plain"),
        Variant("rate-x100", {"lr": 1.0}, "rate-too-large", "plain"),
        Variant("rate-over-300", {"lr": 0.01 / 300}, "rate-too-small", "plain"),
    ),
)
