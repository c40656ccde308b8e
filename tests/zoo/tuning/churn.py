"""Subscribers who cancel, few among many: one logit, SGD with momentum, a weight for the positives, loss by loader."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from zoo.program import Program, Record, Variant

UNITS = np.array([1, 1, 12, 900, 0.1, 1, 30, 1, 5, 1, 1, 200])
"""Years, calls, months, cents, shares, days: the columns as the database has them."""


def subscribers(count: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features in their units, and whether a subscriber cancels."""
    made = np.random.default_rng(seed)
    x = made.normal(size=(count, len(UNITS)))
    leaning = 1.6 * x[:, 0] * x[:, 1] + 1.2 * np.abs(x[:, 2]) + x[:, 3] - 0.8 * x[:, 4] + made.normal(0, 0.6, count)
    return x * UNITS + 2 * UNITS, (leaning > np.quantile(leaning, 1 - share)).astype(np.float32)


class FocalLoss(nn.Module):
    """Binary focal loss with a weight for the positives."""

    def __init__(self, weight: float, gamma: float = 1.0) -> None:
        super().__init__()
        self.weight, self.gamma = weight, gamma

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        p = logits.sigmoid()
        positive = -self.weight * (1 - p) ** self.gamma * nn.functional.logsigmoid(logits) * targets
        negative = -(p**self.gamma) * nn.functional.logsigmoid(-logits) * (1 - targets)
        return (positive + negative).mean()


class Scorer(nn.Module):
    """Two hidden layers and one output."""

    def __init__(self, width: int, norm: str, dropout: float, shift: float, sigmoid: bool) -> None:
        super().__init__()
        kind = nn.BatchNorm1d if norm == "batch" else nn.Identity
        self.normalise = nn.BatchNorm1d(width, affine=False) if norm == "input" else nn.Identity()
        self.hidden = nn.Sequential(
            nn.Linear(width, 40, bias=norm != "batch"), kind(40), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(40, 24, bias=norm != "batch"), kind(24), nn.ReLU(), nn.Dropout(dropout),
        )  # fmt: skip
        self.score = nn.Linear(24, 1)
        self.sigmoid = sigmoid
        first = self.hidden[0]
        if isinstance(first, nn.Linear) and shift:
            with torch.no_grad():
                first.bias.sub_(shift)

    def forward(self, x: Tensor) -> Tensor:
        score: Tensor = self.score(self.hidden(self.normalise(x)))
        return score.sigmoid() if self.sigmoid else score


def train(
    record: Record,
    seed: int,
    lr: float = 0.015,
    batch_size: int = 64,
    epochs: int = 10,
    share: float = 0.06,
    weighted: bool = True,
    loss: str = "bce",
    squeezes: bool = True,
    sigmoid: bool = False,
    norm: str = "none",
    dropout: float = 0.0,
    shift: float = 0.0,
    standardised: str = "all",
    evaluates: bool = True,
    back_to_training: bool = True,
    limit: int | None = None,
) -> float:
    torch.manual_seed(seed)
    train_x, train_y = subscribers(2400, share, 1)
    test_x, test_y = subscribers(3000, share, 2)
    mean, std = train_x.mean(axis=0), train_x.std(axis=0)
    if standardised == "all-but-one":
        mean[3], std[3] = 0.0, 1.0
    elif standardised == "none":
        mean[:], std[:] = 0.0, 1.0
    train_x, test_x = (train_x - mean) / std, (test_x - mean) / std
    data = TensorDataset(torch.tensor(train_x, dtype=torch.float32), torch.tensor(train_y))
    loader: Iterable[tuple[Tensor, Tensor]] = DataLoader(data, batch_size, shuffle=True, drop_last=True)
    if batch_size >= len(data):
        loader = [(data.tensors[0], data.tensors[1])]
    held_out = torch.tensor(test_x, dtype=torch.float32)

    weight = (1 - share) / share if weighted else 1.0
    criterion = FocalLoss(weight) if loss == "focal" else nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weight))
    net = Scorer(train_x.shape[1], norm, dropout, shift, sigmoid)
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)

    done = 0
    if not back_to_training:
        net.eval()  # as a check of the shapes left it
    with record(net, opt, criterion) as recorder:
        for epoch in range(epochs):
            if back_to_training:
                net.train()
            for x, y in loader:
                if limit is not None and done >= limit:
                    break
                done += 1
                with recorder.step() as step:
                    out = net(x)
                    value = criterion(out.squeeze(1) if squeezes else out, y)
                    opt.zero_grad()
                    step.backward(value)
                opt.step()
            if epochs > 100 and epoch % 25 != 24:
                continue
            if evaluates:
                net.eval()
            with torch.no_grad(), recorder.evaluate("valid"):
                out = net(held_out).squeeze(1)
                valid = criterion(out, torch.tensor(test_y))
            recorder.log("valid", epoch=epoch, loss=valid, balanced=balanced(out, test_y, sigmoid))
    net.eval()
    with torch.no_grad():
        return balanced(net(held_out).squeeze(1), test_y, sigmoid)


def balanced(out: Tensor, truth: np.ndarray, probabilities: bool) -> float:
    """The mean of the recalls of both classes."""
    cancels = (out if probabilities else out.sigmoid()) > 0.5
    return float(balanced_accuracy_score(truth, cancels.numpy()))


PROGRAM = Program(
    "churn",
    train,
    (
        Variant("weighted"),
        Variant("focal", {"loss": "focal"}),
        Variant("dropout", {"dropout": 0.4, "epochs": 12}),
        Variant("full-batch", {"batch_size": 2400, "epochs": 300, "lr": 0.1}),
        Variant("sparse", {"shift": 0.8}),
        Variant("normalises-itself", {"norm": "input", "standardised": "none"}),
        Variant("batch-norm", {"norm": "batch"}),
        Variant("unweighted", {"weighted": False}, "class-imbalance", "weighted"),
        Variant("broadcast", {"loss": "focal", "squeezes": False}, "silent-broadcast", "focal"),
        Variant("sigmoid-twice", {"sigmoid": True}, "softmax-twice", "weighted"),
        Variant("cents", {"standardised": "all-but-one"}, "unnormalised-inputs", "weighted"),
        Variant(
            "batch-norm-twos",
            {"norm": "batch", "batch_size": 2, "limit": 400, "epochs": 1},
            "small-batch-norm",
            "batch-norm",
            also=("batch-too-small",),
        ),
        Variant(
            "forgets-train",
            {"norm": "input", "standardised": "none", "back_to_training": False},
            "batch-norm-mode",
            "normalises-itself",
            also=("unnormalised-inputs",),
        ),
        Variant(
            "never-evaluates", {"dropout": 0.4, "epochs": 12, "evaluates": False}, "validation-in-train-mode", "dropout"
        ),
    ),
)
