"""Handwritten digits, a convolutional network with batch norm. Functional loss, Adam, shuffled index batches."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    images = ((images - images.mean()) / images.std()).reshape(-1, 1, 8, 8).astype("float32")
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.3, random_state=1)
    return torch.tensor(train_x), torch.tensor(train_y), torch.tensor(test_x), torch.tensor(test_y)


class Net(nn.Module):
    def __init__(self, bias: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=bias)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, bias=bias)
        self.bn2 = nn.BatchNorm2d(16)
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        out: Tensor = self.fc(self.drop(x.flatten(1)))
        return out


def train(
    record: Record,
    seed: int,
    lr: float = 3e-3,
    batch: int = 32,
    steps: int = 350,
    samples: int | None = None,
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    bias: bool = False,
    accumulate: int = 1,
    clip: float | None = None,
    zero_grad: bool = True,
    sgd: bool = False,
    stays_in_eval: bool = False,
    validates_in_train: bool = False,
    valid_batch: int = 540,
    resumed_at: int | None = None,
    killed_at: int | None = None,
) -> float:
    torch.manual_seed(seed)
    train_x, train_y, test_x, test_y = digits()
    train_x, train_y = train_x[:samples], train_y[:samples]
    model = Net(bias, dropout)
    if sgd:
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr, 0.9, weight_decay=weight_decay)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=weight_decay)

    def validate(recorder: Any, step: int) -> None:
        if not validates_in_train:
            model.eval()
        with torch.no_grad(), recorder.evaluate("valid"):
            logits = torch.cat([model(x) for x in test_x.split(valid_batch)])
        recorder.log("valid", step=step, loss=F.cross_entropy(logits, test_y), accuracy=accuracy(logits, test_y))
        if not stays_in_eval:
            model.train()

    def run(recorder: Any, first: int, last: int) -> None:
        for i in range(first, last):
            if i == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if zero_grad:
                optimizer.zero_grad()
            with recorder.step() as step:
                for _ in range(accumulate):
                    chosen = torch.randint(len(train_x), (batch,))
                    step.backward(F.cross_entropy(model(train_x[chosen]), train_y[chosen]) / accumulate)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if i % 40 == 39:
                validate(recorder, i)

    with record(model, optimizer) as recorder:
        run(recorder, 0, steps if resumed_at is None else resumed_at)
    if resumed_at is not None:  # the second job of a training that was cut in two
        with record(model, optimizer, resume=True, first_step=resumed_at) as recorder:
            run(recorder, resumed_at, steps)

    model.eval()
    with torch.no_grad():
        return float(accuracy(model(test_x), test_y))


def accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    return (logits.argmax(dim=1) == targets).float().mean()


PROGRAM = Program(
    "digits-cnn",
    train,
    (
        Variant("plain"),
        Variant("accumulation", {"batch": 16, "accumulate": 4, "steps": 250}),
        Variant("clipped-every-step", {"clip": 0.3}),
        Variant("dropout", {"dropout": 0.5}),
        Variant("weight-decay", {"weight_decay": 0.1}),
        Variant("resumed", {"resumed_at": 200}),
        Variant("small-batches", {"batch": 8, "steps": 700, "lr": 1e-3}),
        Variant("sgd", {"sgd": True, "lr": 0.03, "weight_decay": 5e-4}),
        Variant("regularised", {"samples": 150, "dropout": 0.5, "steps": 400}),
        Variant("rate-x30", {"lr": 0.1}, "rate-too-large", "plain"),
        Variant("rate-x300", {"lr": 1.0}, "rate-too-large", "plain"),
        Variant("rate-over-300", {"lr": 1e-5}, "rate-too-small", "plain"),
        Variant("stays-in-eval", {"stays_in_eval": True}, "batch-norm-mode", "plain"),
        Variant(
            "validates-in-train",
            {"validates_in_train": True, "valid_batch": 8, "dropout": 0.5},
            "validation-in-train-mode",
            "dropout",
        ),
        Variant("batches-of-2", {"batch": 2, "lr": 3e-3}, "small-batch-norm", "plain", also=("batch-too-small",)),
        Variant(
            "batches-of-3",
            {"batch": 3, "lr": 1e-3, "steps": 700},
            "small-batch-norm",
            "small-batches",
            also=("batch-too-small",),
        ),
        Variant("bias-before-norm", {"bias": True}, "bias-before-batch-norm", "plain"),
        Variant("no-zero-grad", {"zero_grad": False}, "no-zero-grad", "plain"),
        Variant("no-zero-grad-sgd", {"zero_grad": False, "sgd": True, "lr": 0.03}, "no-zero-grad", "sgd"),
        Variant("few-samples", {"samples": 60, "steps": 400}, "overfitting", "plain"),
        Variant("fewer-samples", {"samples": 25, "steps": 400}, "overfitting", "plain"),
        Variant("dropout-0.97", {"dropout": 0.97}, "too-much-regularisation", "dropout"),
        Variant("decay-x10000", {"weight_decay": 100.0}, "too-much-regularisation", "weight-decay"),
        Variant("decay-sgd", {"sgd": True, "lr": 0.03, "weight_decay": 0.3}, "too-much-regularisation", "sgd"),
        Variant("killed", {"killed_at": 270}, "killed", "plain"),
    ),
)
