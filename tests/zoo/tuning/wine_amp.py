"""Wine, a small network trained through a gradient scaler, as in mixed precision. Clipping, momentum, a generator."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


def batches(x: Tensor, y: Tensor, size: int, epochs: int) -> Iterator[dict[str, Tensor]]:
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(size):
            yield {"features": x[chosen], "labels": y[chosen]}


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(13, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.out = nn.Linear(24, 3)

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        return {"logits": self.out(self.body(features))}


def train(
    record: Record,
    seed: int,
    lr: float = 0.02,
    momentum: float = 0.9,
    clip: float | None = 1.0,
    unscales: str = "before-clipping",
    scale: float = 2.0**16,
    half: bool = False,
    epochs: int = 50,
    size: int = 20,
) -> float:
    torch.manual_seed(seed)
    values, classes = load_wine(return_X_y=True)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    x, test_x, y, test_y = train_test_split(values, classes, test_size=0.4, random_state=0, stratify=classes)
    x, test_x = torch.tensor(x, dtype=torch.float32), torch.tensor(test_x, dtype=torch.float32)
    y, test_y = torch.tensor(y), torch.tensor(test_y)

    model = Classifier()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum, nesterov=momentum > 0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=200)

    with record(model, optimizer, loss_fn) as recorder:
        for batch in batches(x, y, size, epochs):
            optimizer.zero_grad()
            with recorder.step() as step:
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
                    logits = model(batch["features"])["logits"]
                    loss = loss_fn(logits.float(), batch["labels"])
                step.backward(loss, scaler=scaler)
                if unscales == "before-clipping":
                    scaler.unscale_(optimizer)
                if clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                scaler.step(optimizer)
                scaler.update()

    with torch.no_grad():
        return -float(loss_fn(model(test_x)["logits"], test_y))


PROGRAM = Program(
    "wine-amp",
    train,
    (
        Variant("scaled"),
        Variant("bfloat16", {"half": True}),
        Variant("skips-at-first", {"scale": 2.0**126}),
        Variant("clip-0.1", {"clip": 0.1, "lr": 0.1}),
        Variant("clips-before-unscaling", {"unscales": "after-clipping"}, "clipping-before-unscaling", "scaled"),
        Variant(
            "clips-before-unscaling-2-10",
            {"unscales": "after-clipping", "scale": 2.0**10},
            "clipping-before-unscaling",
            "scaled",
        ),
        Variant("clip-1e-4", {"clip": 1e-4}, "clipping-too-tight", "scaled"),
        Variant("clip-3e-3", {"clip": 3e-3}, "clipping-too-tight", "scaled"),
        Variant("rate-x300", {"lr": 6.0, "clip": None}, "rate-too-large", "scaled"),
    ),
)
