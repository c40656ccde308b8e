"""Two interleaved half moons, or two circles, told apart by a small network with one logit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.datasets import make_circles, make_moons
from torch import Tensor, nn
from zoo.program import Program, Variant


def make_data(kind: str, count: int, seed: int) -> tuple[Tensor, Tensor]:
    if kind == "moons":
        points, labels = make_moons(count, noise=0.2, random_state=seed)
    else:
        points, labels = make_circles(count, noise=0.1, factor=0.5, random_state=seed)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32)


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    data: str = "moons",
    scale: float = 1.0,
    rate: float = 0.05,
    steps: int = 800,
    batch: int = 32,
    maximize: bool = False,
    squash: bool = False,
    one_batch: bool = False,
    drop_in: float = 0.0,
) -> float:
    """Accuracy on 2000 fresh points; on the repeated batch itself where there is only one."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = make_data(data, 600, seed)
    x_test, y_test = make_data(data, 2000, seed + 1000)
    x, x_test = x * scale, x_test * scale

    model = nn.Sequential(nn.Dropout(drop_in), nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
    model.append(nn.Linear(32, 1))
    if squash:
        model.append(nn.Sigmoid())
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, maximize=maximize)
    threshold = 0.5 if squash else 0.0

    def accuracy(points: Tensor, labels: Tensor) -> float:
        model.eval()
        with torch.no_grad():
            hits = (model(points).squeeze(1) > threshold) == (labels > 0.5)
        model.train()
        return float(hits.float().mean())

    options = {"mode": "overfit-batch"} if one_batch else {}
    with record(model, optimizer, criterion, **options) as recorder:
        for it in range(steps):
            chosen = torch.arange(batch) if one_batch else torch.randint(len(x), (batch,))
            optimizer.zero_grad()
            with recorder.step() as step:
                loss = criterion(model(x[chosen]).squeeze(1), y[chosen])
                step.backward(loss)
            optimizer.step()
            if it % 50 == 49 and not one_batch:
                with recorder.evaluate("valid"):
                    recorder.log("valid", accuracy=accuracy(x_test, y_test))
    return accuracy(x[:batch], y[:batch]) if one_batch else accuracy(x_test, y_test)


PROGRAM = Program(
    "moons",
    train,
    (
        Variant("plain"),
        Variant("full-batch", {"batch": 600, "rate": 0.2}),
        Variant("tiny-batch", {"batch": 4, "rate": 0.007, "steps": 2000}),
        Variant("rate-x20", {"rate": 1.0}, "rate-too-large", "plain"),
        Variant("rate-x30", {"rate": 1.5}, "rate-too-large", "plain"),
        Variant("rate-x100", {"rate": 5.0}, "rate-too-large", "plain"),
        Variant("maximize", {"maximize": True}, "flipped-sign", "plain"),
        Variant("sigmoid-before-logits-loss", {"squash": True}, "softmax-twice", "plain"),
        Variant("circles", {"data": "circles"}),
        Variant("circles-x100", {"data": "circles", "scale": 100.0}, "unnormalised-inputs", "circles"),
        Variant("one-batch", {"one_batch": True, "rate": 0.1}),
        Variant(
            "one-batch-slow",
            {"one_batch": True, "rate": 1e-4, "steps": 400},
            "does-not-fit-one-batch",
            "one-batch",
            also=("rate-too-small",),
        ),
        Variant(
            "one-batch-noisy", {"one_batch": True, "rate": 0.1, "drop_in": 0.7}, "does-not-fit-one-batch", "one-batch"
        ),
    ),
)
