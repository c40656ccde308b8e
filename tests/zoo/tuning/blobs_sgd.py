"""Overlapping clouds of points, a tiny network. The best there is still errs: a floor under the loss, and noise."""

from __future__ import annotations

import torch
from sklearn.datasets import make_blobs
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

CENTRES = [[-1.2, 0.0, 0.5], [1.2, 0.3, 0.0], [0.0, 1.5, -0.5], [0.0, -1.0, -1.0]]


def blobs(count: int, seed: int, spread: float) -> tuple[Tensor, Tensor]:
    points, labels = make_blobs(count, centers=CENTRES, cluster_std=spread, random_state=seed)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(labels)


def train(
    record: Record,
    seed: int,
    lr: float = 0.05,
    batch: int = 64,
    steps: int = 500,
    momentum: float = 0.0,
    method: str = "sgd",
    order: str = "random",
    spread: float = 1.0,
    hard_from: int | None = None,
    block: int = 1,
) -> float:
    torch.manual_seed(seed)
    x, y = blobs(4000, 1, spread)
    if order == "sorted":
        by_class = y.argsort()
        x, y = x[by_class], y[by_class]
    elif order == "nearly-sorted":
        by_class = (y + 1.5 * torch.rand(len(y))).argsort()
        x, y = x[by_class], y[by_class]
    easy = (x - torch.tensor(CENTRES)[y]).norm(dim=1) < 1.0

    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
    criterion = nn.CrossEntropyLoss()
    if method == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr, momentum)
    else:
        optimizer = {"adagrad": torch.optim.Adagrad, "rmsprop": torch.optim.RMSprop}[method](model.parameters(), lr)

    with record(model, optimizer, criterion) as recorder:
        for i in range(steps):
            if hard_from is not None and i < hard_from:  # a curriculum: what is easy comes first
                pool = easy.nonzero().squeeze(1)
                chosen = pool[torch.randint(len(pool), (batch,))]
            elif order == "random":
                chosen = torch.randint(len(x), (batch,))
            else:
                chosen = torch.arange(i * batch, (i + 1) * batch) % len(x)
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(criterion(model(x[chosen]), y[chosen]))
            optimizer.step()

    test_x, test_y = blobs(2000, 2, spread)
    with torch.no_grad():
        return -float(criterion(model(test_x), test_y))


PROGRAM = Program(
    "blobs-sgd",
    train,
    (
        Variant("plain"),
        Variant("noise-floor", {"spread": 2.5}),
        Variant("small-rate-small-batch", {"batch": 4, "lr": 0.01, "steps": 1000}),
        Variant("adagrad", {"method": "adagrad", "lr": 0.1}),
        Variant("rmsprop", {"method": "rmsprop", "lr": 5e-3}),
        Variant("curriculum", {"hard_from": 250, "lr": 0.2}),
        Variant("continued", {"steps": 1500, "lr": 0.2}),
        Variant("large-batch", {"batch": 1000, "lr": 0.5, "steps": 300}),
        Variant("batch-of-1", {"batch": 1, "lr": 0.1, "steps": 800}, "batch-too-small", "small-rate-small-batch"),
        Variant("batch-of-2", {"batch": 2, "lr": 0.2, "steps": 800}, "batch-too-small", "small-rate-small-batch"),
        Variant(
            "batch-of-1-noisy", {"batch": 1, "lr": 0.05, "spread": 2.5, "steps": 800}, "batch-too-small", "noise-floor"
        ),
        Variant("sorted", {"order": "sorted"}, "unshuffled", "plain"),
        Variant("nearly-sorted", {"order": "nearly-sorted"}, "unshuffled", "plain"),
        Variant("rate-x30", {"lr": 5.0, "batch": 1000, "momentum": 0.9}, "rate-too-large", "large-batch"),
        Variant("rate-over-300", {"lr": 0.05 / 300}, "rate-too-small", "plain"),
    ),
)
