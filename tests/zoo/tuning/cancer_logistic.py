"""Breast cancer, logistic regression or a small network on the whole data at once. Binary cross entropy with logits."""

from __future__ import annotations

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


def cancer(normalised: bool, leaked: bool) -> list[Tensor]:
    values, labels = load_breast_cancer(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(values, labels, test_size=0.3, random_state=0)
    if normalised:
        mean, std = train_x.mean(axis=0), train_x.std(axis=0)
        train_x, test_x = (train_x - mean) / std, (test_x - mean) / std
    data = [torch.tensor(each, dtype=torch.float32) for each in (train_x, train_y, test_x, test_y)]
    if leaked:  # the table was exported with the diagnosis among its columns
        data[0] = torch.cat([data[0], 2 * data[1][:, None] - 1], dim=1)
        data[2] = torch.cat([data[2], 2 * data[3][:, None] - 1], dim=1)
    return data


def train(
    record: Record,
    seed: int,
    lr: float = 0.5,
    momentum: float = 0.0,
    hidden: int = 0,
    steps: int = 400,
    method: str = "sgd",
    normalised: bool = True,
    leaked: bool = False,
    sigmoid: bool = False,
    maximize: bool = False,
    penalty: float = 0.0,
) -> float:
    torch.manual_seed(seed)
    train_x, train_y, test_x, test_y = cancer(normalised, leaked)
    features = train_x.shape[1]
    if hidden:
        model = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))
    else:
        model = nn.Sequential(nn.Linear(features, 1))
    if sigmoid:
        model.append(nn.Sigmoid())
    criterion = nn.BCEWithLogitsLoss()
    if method == "lbfgs":
        optimizer: torch.optim.Optimizer = torch.optim.LBFGS(model.parameters(), lr=lr, max_iter=4)
    elif method == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, maximize=maximize)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, maximize=maximize)

    with record(model, optimizer, criterion, hparams={"seed": seed, "lr": lr}) as recorder:
        for _ in range(steps):
            with recorder.step() as step:

                def closure() -> Tensor:
                    optimizer.zero_grad()
                    loss: Tensor = criterion(model(train_x).squeeze(1), train_y)
                    if penalty:
                        loss = loss + penalty * sum(p.square().sum() for p in model.parameters())
                    step.backward(loss)
                    return loss

                if method == "lbfgs":
                    optimizer.step(closure)  # type: ignore[arg-type]
                else:
                    closure()
                    optimizer.step()

    with torch.no_grad():
        logits = model(test_x).squeeze(1)
    return -float(nn.functional.binary_cross_entropy_with_logits(logits.clamp(-20, 20), test_y))


PROGRAM = Program(
    "cancer-logistic",
    train,
    (
        Variant("plain"),
        Variant("small-penalty", {"penalty": 1e-3}),
        Variant("momentum", {"lr": 0.05, "momentum": 0.9, "steps": 300}),
        Variant("adam", {"method": "adam", "lr": 0.01}),
        Variant("lbfgs", {"method": "lbfgs", "lr": 0.5, "steps": 30, "penalty": 1e-3}),
        Variant("hidden", {"hidden": 16, "penalty": 2e-3}),
        Variant("raw-features", {"normalised": False}, "unnormalised-inputs", "plain"),
        Variant("raw-features-small-rate", {"normalised": False, "lr": 1e-6}, "unnormalised-inputs", "plain"),
        Variant(
            "raw-features-adam", {"normalised": False, "method": "adam", "lr": 0.01}, "unnormalised-inputs", "adam"
        ),
        Variant("ascends", {"maximize": True}, "flipped-sign", "plain"),
        Variant("ascends-adam", {"method": "adam", "lr": 0.01, "maximize": True}, "flipped-sign", "adam"),
        Variant("sigmoid-twice", {"sigmoid": True}, "softmax-twice", "plain"),
        Variant("leaked", {"leaked": True}, "leaked-answer", "plain"),
        Variant("rate-x30", {"lr": 15.0}, "rate-too-large", "plain"),
        Variant("rate-x300", {"lr": 150.0}, "rate-too-large", "plain"),
        Variant("rate-over-1000", {"lr": 5e-4}, "rate-too-small", "plain"),
        Variant("penalty-x1000", {"penalty": 1.0}, "too-much-regularisation", "small-penalty"),
        Variant(
            "momentum-0.995",
            {"lr": 1.0, "momentum": 0.995, "steps": 300},
            "oscillating",
            "momentum",
            also=("rate-too-large",),
        ),
    ),
)
