"""Noisy pictures of bars, crosses and rings, and a small residual network with group norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo.program import Program, Variant

SIZE, CLASSES = 12, 5


def draw(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures (count, 1, 12, 12): a stroke of one of five shapes at a random place, in noise."""
    labels = torch.randint(CLASSES, (count,), generator=generator)
    centre = torch.randint(3, SIZE - 3, (count, 2), generator=generator)
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    dy, dx = rows - centre[:, :1, None], columns - centre[:, 1:, None]
    near = torch.maximum(dy.abs(), dx.abs())
    across, down, falling, rising = dy == 0, dx == 0, dy == dx, dy == -dx
    shapes = torch.stack([across, down, falling | rising, across | down, near == 2], 1) & (near <= 2)[:, None]
    ink = shapes[torch.arange(count), labels].float()
    return 2 * ink[:, None] + 0.8 * torch.randn(count, 1, SIZE, SIZE, generator=generator), labels


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.relu(self.norm1(x)))
        out: Tensor = x + self.conv2(F.relu(self.norm2(y)))
        return out


class ResNet(nn.Module):
    def __init__(self, width: int = 12, depth: int = 2, plain_list: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        blocks = [Block(width) for _ in range(depth)]
        self.blocks: Any = blocks if plain_list else nn.ModuleList(blocks)
        self.norm = nn.GroupNorm(4, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(F.relu(self.norm(x)).amax(dim=(2, 3)))
        return logits


def warmup_cosine(warmup: int, total: int) -> Callable[[int], float]:
    return lambda s: min(
        (s + 1) / warmup, 0.5 + 0.5 * math.cos(math.pi * min(1.0, max(0, s - warmup) / (total - warmup)))
    )


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    rate: float = 4e-3,
    epochs: int = 12,
    batch: int = 32,
    schedule: str = "none",
    stepped: str = "batch",
    plain_list: bool = False,
    l2: float = 0.0,
    smoothing: float = 0.0,
    bf16: bool = False,
    head_factor: float = 1.0,
    finetune: str | None = None,
) -> float:
    """Accuracy on 600 new pictures. Fine-tuning starts from a network trained before, outside the record."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = draw(1024, generator)
    x_valid, y_valid = draw(600, generator)
    per_epoch = len(x) // batch

    model = ResNet(plain_list=plain_list)
    if finetune:
        warm = torch.optim.Adam(model.parameters(), lr=4e-3)
        for _ in range(150):
            pictures, labels = draw(64, generator)
            warm.zero_grad()
            F.cross_entropy(model(pictures), labels).backward()
            warm.step()
        fresh = nn.Linear(12, CLASSES)
        if finetune != "frozen-replaced-late":
            model.head = fresh
        if finetune != "all":
            for parameter in [*model.stem.parameters(), *model.blocks.parameters(), *model.norm.parameters()]:
                parameter.requires_grad_(False)

    head = list(model.head.parameters())
    body = [p for n, p in model.named_parameters() if not n.startswith("head.") and p.requires_grad]
    groups: list[dict[str, Any]] = [{"params": head, "lr": rate * head_factor}]
    if body:
        groups.insert(0, {"params": body})
    optimizer = torch.optim.Adam(groups, lr=rate, weight_decay=l2)
    if finetune == "frozen-replaced-late":
        model.head = fresh  # the optimizer still holds the old one
    scheduler: Any = None
    if schedule == "exponential":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    elif schedule == "warmup-cosine":
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(60, epochs * per_epoch))
    elif schedule == "cosine-epochs":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)

    def evaluate() -> tuple[float, float]:
        with torch.no_grad():
            logits = model.eval()(x_valid)
        model.train()
        return F.cross_entropy(logits, y_valid).item(), (logits.argmax(1) == y_valid).float().mean().item()

    with record(model, optimizer, criterion) as recorder:
        for epoch in range(epochs):
            for chosen in torch.randperm(len(x)).split(batch):
                optimizer.zero_grad(set_to_none=True)
                with recorder.step() as step:
                    with torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else nullcontext():
                        loss = criterion(model(x[chosen]), y[chosen])
                    step.backward(loss)
                optimizer.step()
                if scheduler and stepped == "batch":
                    scheduler.step()
            if scheduler and stepped == "epoch":
                scheduler.step()
            with recorder.evaluate("valid"):
                valid_loss, accuracy = evaluate()
            recorder.log("valid", epoch=epoch, loss=valid_loss, accuracy=accuracy)
    return accuracy


PROGRAM = Program(
    "shapes",
    train,
    (
        Variant("plain"),
        Variant("warmup-cosine", {"schedule": "warmup-cosine"}),
        Variant("label-smoothing", {"smoothing": 0.1}),
        Variant("bf16", {"bf16": True}),
        Variant("exponential", {"schedule": "exponential", "stepped": "epoch"}),
        Variant("frozen-backbone", {"finetune": "frozen", "epochs": 8, "rate": 1e-2}),
        Variant("new-head", {"finetune": "all", "epochs": 6, "rate": 1e-3}),
        Variant(
            "head-replaced-late",
            {"finetune": "frozen-replaced-late", "epochs": 8, "rate": 1e-2},
            "wiring",
            "frozen-backbone",
        ),
        Variant("exponential-per-batch", {"schedule": "exponential"}, "rate-decayed", "exponential"),
        Variant(
            "warmup-per-epoch", {"schedule": "warmup-cosine", "stepped": "epoch"}, "schedule-rhythm", "warmup-cosine"
        ),
        Variant("cosine-per-epoch", {"schedule": "cosine-epochs", "stepped": "epoch"}),
        Variant("blocks-in-a-list", {"plain_list": True}, "wiring", "plain"),
        Variant("l2-0.3", {"l2": 0.3}, "too-much-regularisation", "plain"),
        Variant("head-rate-x100", {"head_factor": 100.0}, "update-outlier", "plain"),
        Variant("head-rate-x1000", {"head_factor": 1000.0}, "update-outlier", "plain"),
    ),
)
