"""Handwritten digits, a small residual network in a trainer class: micro-batches, averaged weights, clipping, SGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from zoo.program import Program, Record, Variant


@dataclass
class Config:
    norm: str = "group"
    width: int = 8
    lr: float = 0.05
    weight_decay: float = 1e-4
    micro_batch: int = 64
    accumulate: int = 1
    epochs: int = 10
    clip: float | None = None
    anneal: str | None = None
    ema: float | None = None
    bias: float | None = None
    probabilities: bool = False
    zeroes: bool = True
    evaluates: str = "and-goes-on"


def normalised(kind: str, channels: int) -> nn.Module:
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(4, channels) if kind == "group" else nn.Identity()


class Residual(nn.Module):
    def __init__(self, channels: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = normalised(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = normalised(norm, channels)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(out)))


class Net(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.width
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.stem_norm = normalised(config.norm, width)
        self.block1 = Residual(width, config.norm)
        self.down = nn.Conv2d(width, 2 * width, 2, stride=2)
        self.block2 = Residual(2 * width, config.norm)
        self.classifier = nn.Linear(2 * width, 10)
        self.probabilities = config.probabilities
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if config.bias is not None:  # a prior for the last layer, given to all of them
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    nn.init.constant_(parameter, config.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem_norm(self.stem(x)))
        x = self.block2(self.down(self.block1(x)))
        logits = self.classifier(x.mean(dim=(2, 3)))
        return logits.softmax(dim=1) if self.probabilities else logits


class Trainer:
    def __init__(self, config: Config, record: Record) -> None:
        self.config, self.record = config, record
        images, labels = load_digits(return_X_y=True)
        order = np.random.RandomState(3).permutation(len(images))
        x = torch.tensor(images[order], dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
        y = torch.tensor(labels[order])
        self.train_x, self.train_y, self.test_x, self.test_y = x[:1152], y[:1152], x[1152:], y[1152:]
        self.model = Net(config)
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        rest = [p for p in self.model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.SGD(
            [{"params": decayed, "weight_decay": config.weight_decay}, {"params": rest, "weight_decay": 0.0}],
            lr=config.lr,
            momentum=0.9,
            nesterov=True,
        )
        self.steps_per_epoch = len(self.train_x) // (config.micro_batch * config.accumulate)
        total = config.epochs * self.steps_per_epoch
        self.scheduler = torch.optim.lr_scheduler.PolynomialLR(self.optimizer, total_iters=total, power=1.0)
        self.average = None
        if config.ema is not None:
            self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(config.ema))

    def fit(self) -> float:
        with self.record(self.model, self.optimizer) as recorder:
            for epoch in range(self.config.epochs):
                if epoch == 0 or self.config.evaluates == "and-goes-on":
                    self.model.train()
                if self.config.evaluates == "at-first":
                    self.model.eval()
                loss = self.run_epoch(recorder)
                accuracy = self.validate(recorder)
                recorder.log("train", epoch=epoch, loss=loss)
                recorder.log("valid", epoch=epoch, accuracy=accuracy)
        return accuracy

    def run_epoch(self, recorder: Any) -> float:
        config = self.config
        micro_batches = torch.randperm(len(self.train_x)).split(config.micro_batch)
        mean = 0.0
        for number in range(self.steps_per_epoch):
            chosen = micro_batches[number * config.accumulate : (number + 1) * config.accumulate]
            with recorder.step() as step:
                for indices in chosen:
                    loss = F.cross_entropy(self.model(self.train_x[indices]), self.train_y[indices])
                    step.backward(loss / len(chosen))
                    mean += loss.item() / len(chosen) / self.steps_per_epoch
                    if config.anneal == "by-micro-batch":
                        self.scheduler.step()
            if config.clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
            self.optimizer.step()
            if config.anneal == "by-step":
                self.scheduler.step()
            if config.zeroes:
                self.optimizer.zero_grad(set_to_none=True)
            if self.average is not None:
                self.average.update_parameters(self.model)
        return mean

    def validate(self, recorder: Any) -> float:
        judged = self.model if self.average is None else self.average
        judged.eval()
        with torch.inference_mode(), recorder.evaluate("valid"):
            predicted = judged(self.test_x).argmax(dim=1)
        return float((predicted == self.test_y).float().mean())


def train(record: Record, seed: int, **options: Any) -> float:
    torch.manual_seed(seed)
    return Trainer(Config(**options), record).fit()


ACCUMULATED = {"micro_batch": 32, "accumulate": 2, "lr": 0.1}

PROGRAM = Program(
    "digits-resnet",
    train,
    (
        Variant("group-norm"),
        Variant("batch-norm", {"norm": "batch", "lr": 0.1}),
        Variant("accumulated-annealed", {**ACCUMULATED, "anneal": "by-step"}),
        Variant("clipped-always", {"clip": 0.4, "lr": 0.1}),
        Variant("averaged-weights", {"ema": 0.95, "lr": 0.1, "anneal": "by-step"}),
        Variant("batches-of-8", {"micro_batch": 8, "epochs": 3, "lr": 0.02}),
        Variant(
            "stays-in-eval", {"norm": "batch", "lr": 0.1, "evaluates": "at-first"}, "batch-norm-mode", "batch-norm"
        ),
        Variant("weight-decay-0.1", {"weight_decay": 0.1}, "too-much-regularisation", "group-norm"),
        Variant("never-zeroed", {"zeroes": False}, "no-zero-grad", "group-norm"),
        Variant("clip-1e-3", {"clip": 1e-3, "lr": 0.1}, "clipping-too-tight", "clipped-always"),
        Variant(
            "annealed-by-micro-batch",
            {**ACCUMULATED, "anneal": "by-micro-batch"},
            "schedule-rhythm",
            "accumulated-annealed",
            also=("rate-decayed",),
        ),
        Variant("rate-x10", {"lr": 0.5}, "rate-too-large", "group-norm"),
        Variant("all-biases-negative", {"bias": -3.0}, "dead-units", "group-norm"),
        Variant("returns-probabilities", {"probabilities": True}, "softmax-twice", "group-norm"),
    ),
)
