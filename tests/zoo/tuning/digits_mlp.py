"""Handwritten digits, a multi-layer perceptron. Loaders, epochs, SGD with momentum, a scheduler, validation."""

from __future__ import annotations

import math

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset
from zoo.program import Program, Record, Variant


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    values, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(values, labels, test_size=0.3, random_state=0, stratify=labels)
    mean, std = train_x.mean(), train_x.std()
    images = [torch.tensor((x - mean) / std, dtype=torch.float32) for x in (train_x, test_x)]
    return images[0], torch.tensor(train_y), images[1], torch.tensor(test_y)


def mislabelled(labels: Tensor, how: str) -> Tensor:
    if how == "random":
        return torch.randint(10, labels.shape)
    if how == "shifted":  # the labels start one sample late
        return labels.roll(1)
    share = {"noisy": 0.35, "noisier": 0.6}.get(how, 0.0)
    return torch.where(torch.rand(len(labels)) < share, torch.randint(10, labels.shape), labels)


def scheduler(optimizer: torch.optim.Optimizer, name: str, epochs: int, batches: int) -> lr_scheduler.LRScheduler:
    if name == "warm-up":
        return lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (4 * batches)))
    if name == "one-cycle":
        return lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, epochs=epochs, steps_per_epoch=batches)
    if name == "cosine":
        return lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    if name == "restarts":
        return lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=math.ceil(epochs / 3))
    if name == "step":
        return lr_scheduler.StepLR(optimizer, step_size=epochs // 3, gamma=0.2)
    if name.startswith("decay-"):
        return lr_scheduler.ExponentialLR(optimizer, gamma=float(name.removeprefix("decay-")))
    return lr_scheduler.ConstantLR(optimizer, factor=1.0)


def train(
    record: Record,
    seed: int,
    rate: float = 0.02,
    schedule: str = "constant",
    rhythm: str = "epoch",
    batch: int = 64,
    epochs: int = 25,
    labels: str = "right",
    shuffle: bool = True,
    smoothing: float = 0.0,
    head: nn.Module | None = None,
    scale: float = 1.0,
    breaks_at: int | None = None,
) -> float:
    torch.manual_seed(seed)
    train_x, train_y, test_x, test_y = digits()
    train_x, test_x, train_y = train_x * scale, test_x * scale, mislabelled(train_y, labels)
    if not shuffle:
        order = train_y.argsort()
        train_x, train_y = train_x[order], train_y[order]
    loader = DataLoader(TensorDataset(train_x, train_y), batch_size=batch, shuffle=shuffle, drop_last=True)

    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))
    if head is not None:
        model.append(head)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=smoothing)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    sched = scheduler(optimizer, schedule, epochs, len(loader))

    with record(model, optimizer, loss_fn) as recorder:
        for epoch in range(epochs):
            for inputs, targets in loader:
                if breaks_at is not None and epoch >= breaks_at:  # the pipeline delivers noise from now on
                    inputs = 3 * torch.randn_like(inputs)
                optimizer.zero_grad()
                with recorder.step() as step:
                    loss = loss_fn(model(inputs), targets)
                    step.backward(loss)
                optimizer.step()
                if rhythm == "step":
                    sched.step()
            if rhythm == "epoch":
                sched.step()
            model.eval()
            with recorder.evaluate("valid"), torch.no_grad():
                logits = model(test_x)
            model.train()
            accuracy = (logits.argmax(dim=1) == test_y).float().mean()
            recorder.log("valid", epoch=epoch, loss=nn.functional.cross_entropy(logits, test_y), accuracy=accuracy)
    return float(accuracy)


PROGRAM = Program(
    "digits-mlp",
    train,
    (
        Variant("plain"),
        Variant("rate-tuned", {"rate": 0.06}),
        Variant("warm-up", {"schedule": "warm-up", "rhythm": "step", "rate": 0.05}),
        Variant("one-cycle", {"schedule": "one-cycle", "rhythm": "step"}),
        Variant("cosine", {"schedule": "cosine"}),
        Variant("restarts", {"schedule": "restarts"}),
        Variant("step-decay", {"schedule": "step", "rate": 0.05}),
        Variant("tiny-batches", {"batch": 4, "rate": 0.003, "epochs": 5}),
        Variant("label-smoothing", {"smoothing": 0.1}),
        Variant("continued", {"epochs": 70}),
        Variant("rate-x10", {"rate": 0.2}, "rate-too-large", "plain"),
        Variant("rate-x30", {"rate": 0.6}, "rate-too-large", "plain"),
        Variant("rate-x100", {"rate": 2.0}, "rate-too-large", "plain"),
        Variant("rate-over-30", {"rate": 0.02 / 30}, "rate-too-small", "plain"),
        Variant("rate-over-300", {"rate": 0.02 / 300}, "rate-too-small", "plain"),
        Variant("rate-over-10000", {"rate": 0.02 / 10000}, "rate-too-small", "plain"),
        Variant("decays-by-0.6", {"schedule": "decay-0.6", "rate": 0.005}, "rate-decayed", "plain"),
        Variant("decays-by-0.2", {"schedule": "decay-0.2"}, "rate-decayed", "plain"),
        Variant(
            "step-decay-by-batch",
            {"schedule": "step", "rhythm": "step"},
            "schedule-rhythm",
            "step-decay",
            also=("rate-decayed",),
        ),
        Variant(
            "decay-by-batch",
            {"schedule": "decay-0.9", "rhythm": "step"},
            "schedule-rhythm",
            "cosine",
            also=("rate-decayed",),
        ),
        Variant(
            "one-cycle-by-epoch",
            {"schedule": "one-cycle", "rhythm": "epoch"},
            "schedule-rhythm",
            "one-cycle",
            also=("rate-too-small",),
        ),
        Variant("labels-random", {"labels": "random"}, "wrong-labels", "plain"),
        Variant("labels-shifted", {"labels": "shifted"}, "wrong-labels", "plain"),
        Variant("labels-noisy", {"labels": "noisy"}, "wrong-labels", "plain"),
        Variant("labels-noisier", {"labels": "noisier"}, "wrong-labels", "plain"),
        Variant("sorted", {"shuffle": False}, "unshuffled", "plain"),
        Variant("softmax-twice", {"head": nn.Softmax(dim=1)}, "softmax-twice", "plain"),
        Variant("softmax-over-batch", {"head": nn.Softmax(dim=0)}, "wrong-dimension", "plain", also=("softmax-twice",)),
        Variant("log-softmax-over-batch", {"head": nn.LogSoftmax(dim=0)}, "wrong-dimension", "plain"),
        Variant("inputs-x300", {"scale": 300.0}, "unnormalised-inputs", "plain"),
        Variant("inputs-over-1000", {"scale": 1e-3}, "unnormalised-inputs", "plain"),
        Variant("inputs-zero", {"scale": 0.0}, "at-chance", "plain", also=("unnormalised-inputs",)),
        Variant("pipeline-breaks", {"breaks_at": 18}, "diverged", "plain", also=("wrong-labels",)),
    ),
)
