"""The first thing to try: does the network fit one batch? The same batch at every step, no validation."""

from __future__ import annotations

import torch
from sklearn.datasets import load_wine
from torch import nn
from zoo.program import Program, Record, Variant


def train(
    record: Record,
    seed: int,
    lr: float = 5e-3,
    method: str = "adam",
    width: int = 32,
    sign: float = 1.0,
    labels: str = "right",
    inputs: str = "standard",
    dropout: float = 0.0,
    decay: float = 0.0,
    steps: int = 300,
) -> float:
    torch.manual_seed(seed)
    values, classes = load_wine(return_X_y=True)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    chosen = torch.randperm(len(values))[:32]
    x, y = torch.tensor(values, dtype=torch.float32)[chosen], torch.tensor(classes)[chosen]
    if inputs == "same":  # one sample in all rows
        x = x[:1].repeat(32, 1)
    elif inputs == "doubled":  # each sample twice, with two opinions on what it is
        x, y = torch.cat([x[:16], x[:16]]), torch.cat([y[:16], (y[:16] + 1) % 3])
    elif inputs == "raw":
        x = x * torch.logspace(0, 3, 13) + 300

    model = nn.Sequential(nn.Linear(13, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 3))
    loss_fn = nn.CrossEntropyLoss()
    optimizer: torch.optim.Optimizer
    if method == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=decay)

    with record(model, optimizer, loss_fn, mode="overfit-batch") as recorder:
        for _ in range(steps):
            targets = y[torch.randperm(32)] if labels == "drawn-anew" else y
            optimizer.zero_grad()
            with recorder.step() as step:
                loss = sign * loss_fn(model(x), targets)
                step.backward(loss)
            optimizer.step()

    model.eval()
    with torch.no_grad():
        return -float(loss_fn(model(x), y))


PROGRAM = Program(
    "one-batch",
    train,
    (
        Variant("adam"),
        Variant("sgd", {"method": "sgd", "lr": 0.05}),
        Variant("slow", {"lr": 1e-3, "steps": 800}),
        Variant("same-sample", {"inputs": "same"}, "does-not-fit-one-batch", "adam"),
        Variant("two-opinions", {"inputs": "doubled"}, "does-not-fit-one-batch", "adam", also=("wrong-labels",)),
        Variant(
            "labels-drawn-anew", {"labels": "drawn-anew"}, "wrong-labels", "adam", also=("does-not-fit-one-batch",)
        ),
        Variant("dropout-0.9", {"dropout": 0.9}, "too-much-regularisation", "adam"),
        Variant("decay", {"method": "sgd", "lr": 0.05, "decay": 0.5}, "too-much-regularisation", "sgd"),
        Variant("negated", {"sign": -1.0, "method": "sgd", "lr": 0.05}, "flipped-sign", "sgd"),
        Variant("rate-x2000-sgd", {"method": "sgd", "lr": 100.0}, "rate-too-large", "sgd"),
        Variant("rate-over-1000", {"lr": 5e-6}, "rate-too-small", "adam"),
        Variant("raw-features", {"inputs": "raw", "method": "sgd", "lr": 0.05}, "unnormalised-inputs", "sgd"),
    ),
)
