"""Radiographs of welds, drawn: sound, pores, a crack or tungsten. A vision transformer in a trainer with a config.

AdamW with two parameter groups, warm-up and cosine, clipping; the loss is a function; loss and accuracy each epoch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.optim.lr_scheduler import LambdaLR
from zoo.program import Program, Record, Variant

SIDE, PATCH, CLASSES = 16, 4, 4


@dataclass(frozen=True)
class Config:
    lr: float = 4e-3
    head_lr: float = 4e-3
    weight_decay: float = 0.05
    optimizer: str = "adamw"
    epochs: int = 12
    batch: int = 32
    counts: tuple[int, ...] = (128, 128, 128, 128)
    balance: str = "none"
    warm_up: int = 30
    horizon: str = "steps"  # what the cosine is told to last for
    clip: float = 1.0
    smoothing: float = 0.0
    drop: float = 0.0
    width: int = 24
    depth: int = 2
    batch_first: bool = True
    zero_branches: bool = False
    init: str = "default"
    blocks: str = "module-list"
    augment: bool = True
    adapters: bool = False


@cache
def radiographs(counts: tuple[int, ...], seed: int, faint: bool = False) -> tuple[Tensor, Tensor]:
    """Grey patches and their classes, as many of each as told."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(CLASSES).repeat_interleave(torch.tensor(counts))
    n = len(labels)

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(n, 1, 1, generator=rng)

    y, x = torch.meshgrid(torch.arange(float(SIDE)), torch.arange(float(SIDE)), indexing="ij")
    angle, cx, cy = uniform(0, math.pi), uniform(4, 11), uniform(4, 11)
    along = (x - cx) * angle.cos() + (y - cy) * angle.sin()
    across = (y - cy) * angle.cos() - (x - cx) * angle.sin()
    pores = sum(
        torch.exp(-((x - uniform(2, 13)) ** 2 + (y - uniform(2, 13)) ** 2) / (2 * uniform(0.8, 1.2) ** 2))
        for _ in range(3)
    )
    wiggle = across - 0.9 * torch.sin(along * uniform(0.8, 1.4))
    crack = torch.exp(-(wiggle**2) / 0.7) * torch.sigmoid(6.5 - along.abs())
    tungsten = torch.exp(-(along**2) / (2 * uniform(2.2, 3.2) ** 2) - across**2 / (2 * uniform(0.9, 1.5) ** 2))
    marks = torch.stack([torch.zeros(n, SIDE, SIDE), torch.as_tensor(pores), crack, -tungsten])
    image = uniform(-0.5, 0.5) + uniform(-0.06, 0.06) * (x - 8) + 0.2 * torch.randn(n, SIDE, SIDE, generator=rng)
    image = image - uniform(1.0, 1.8) * (0.6 if faint else 1.0) * marks[labels, torch.arange(n)]
    return image.unsqueeze(1), labels


class Adapter(nn.Module):
    """A bottleneck beside a frozen layer; it starts as nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, 8), nn.Linear(8, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.up(F.gelu(self.down(tokens)))
        return out


class Attention(nn.Module):
    """Self-attention; as in older code bases, the sequence comes first unless told."""

    def __init__(self, width: int, heads: int, batch_first: bool = False) -> None:
        super().__init__()
        self.heads, self.batch_first = heads, batch_first
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        if not self.batch_first:
            tokens = tokens.transpose(0, 1)
        n, length, width = tokens.shape
        q, k, v = self.qkv(tokens).reshape(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1) @ v
        mixed = self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return mixed if self.batch_first else mixed.transpose(0, 1)


class Block(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        width = cfg.width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 4, cfg.batch_first)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Dropout(cfg.drop),
            nn.Linear(2 * width, width),
            nn.Dropout(cfg.drop),
        )
        if cfg.zero_branches:
            nn.init.zeros_(self.attention.out.weight)
            nn.init.zeros_(self.mlp[3].weight)  # type: ignore[arg-type]
        self.adapter: Adapter | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(self.norm1(tokens))
        tokens = tokens + self.mlp(self.norm2(tokens))
        return tokens if self.adapter is None else tokens + self.adapter(tokens)


class ViT(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, cfg.width, PATCH, stride=PATCH)
        self.position = nn.Embedding((SIDE // PATCH) ** 2, cfg.width)
        nn.init.normal_(self.position.weight, std=0.02)
        blocks = [Block(cfg) for _ in range(cfg.depth)]
        self.blocks = nn.ModuleList(blocks) if cfg.blocks == "module-list" else blocks
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, CLASSES)
        if cfg.init == "constant":
            self.apply(constant_weights)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = tokens + self.position(torch.arange(tokens.shape[1]).expand(len(images), -1))
        for block in self.blocks:
            tokens = block(tokens)
        out: Tensor = self.head(self.norm(tokens).mean(dim=1))
        return out


def constant_weights(module: nn.Module) -> None:
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        nn.init.constant_(module.weight, 0.02)


def augmented(images: Tensor) -> Tensor:
    if torch.rand(()) < 0.5:
        images = images.flip(3)
    if torch.rand(()) < 0.5:
        images = images.flip(2)
    return images.roll((int(torch.randint(-1, 2, ())), int(torch.randint(-1, 2, ()))), dims=(2, 3))


class Trainer:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.model = ViT(cfg)
        self.images, self.labels = radiographs(cfg.counts, 1)
        self.valid_images, self.valid_labels = radiographs((80,) * CLASSES, 2)
        counts = torch.tensor(cfg.counts, dtype=torch.float)
        self.weight = counts.sum() / (CLASSES * counts) if cfg.balance == "weights" else None
        self.shares = (1 / counts)[self.labels] if cfg.balance == "sampler" else torch.ones(len(self.labels))
        if cfg.adapters:
            self.pretrain()
            for p in self.model.parameters():
                p.requires_grad_(False)
            for block in self.model.blocks:
                block.adapter = Adapter(cfg.width)
            self.model.head = nn.Linear(cfg.width, CLASSES)
        self.optimizer = self.make_optimizer()

    def make_optimizer(self) -> torch.optim.Optimizer:
        cfg = self.cfg
        head = list(self.model.head.parameters())
        rest = [p for n, p in self.model.named_parameters() if p.requires_grad and not n.startswith("head.")]
        groups = [{"params": rest, "lr": cfg.lr}, {"params": head, "lr": cfg.head_lr}]
        kind = torch.optim.AdamW if cfg.optimizer == "adamw" else torch.optim.Adam
        return kind(groups, lr=cfg.lr, weight_decay=cfg.weight_decay)

    def pretrain(self) -> None:
        """On the radiographs of an older machine, in which the marks are fainter."""
        images, labels = radiographs((128,) * CLASSES, 3, faint=True)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=4e-3)
        for _ in range(100):
            chosen = torch.randint(len(images), (32,))
            optimizer.zero_grad()
            F.cross_entropy(self.model(images[chosen]), labels[chosen]).backward()
            optimizer.step()

    def order(self) -> Tensor:
        """Rows of the images for an epoch."""
        if self.cfg.balance == "sampler":
            return torch.multinomial(self.shares, len(self.images), replacement=True)
        return torch.randperm(len(self.images))

    def fit(self, record: Record) -> float:
        cfg = self.cfg
        per_epoch = max(1, len(self.images) // cfg.batch)
        horizon = cfg.epochs * (per_epoch if cfg.horizon == "steps" else 1)

        def factor(step: int) -> float:
            if step < cfg.warm_up:
                return (step + 1) / cfg.warm_up
            return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(step / horizon, 1.0)))

        schedule = LambdaLR(self.optimizer, factor)
        with record(self.model, self.optimizer) as recorder:
            for epoch in range(cfg.epochs):
                self.model.train()
                for chosen in self.order()[: per_epoch * cfg.batch].split(cfg.batch):
                    images = augmented(self.images[chosen]) if cfg.augment else self.images[chosen]
                    self.optimizer.zero_grad(set_to_none=True)
                    with recorder.step() as step:
                        logits = self.model(images)
                        loss = F.cross_entropy(
                            logits, self.labels[chosen], weight=self.weight, label_smoothing=cfg.smoothing
                        )
                        step.backward(loss)
                    nn.utils.clip_grad_norm_(self.model.parameters(), cfg.clip)
                    self.optimizer.step()
                    schedule.step()
                self.model.eval()
                with recorder.evaluate("valid"), torch.no_grad():
                    logits = self.model(self.valid_images)
                accuracy = (logits.argmax(1) == self.valid_labels).float().mean()
                loss = F.cross_entropy(logits, self.valid_labels)
                recorder.log("valid", epoch=epoch, loss=loss, accuracy=accuracy)
        return float(accuracy)


def train(record: Record, seed: int, **change: object) -> float:
    torch.manual_seed(seed)
    return Trainer(Config(**change)).fit(record)  # type: ignore[arg-type]


FEW = {"counts": (18, 18, 18, 18), "epochs": 80}
SKEWED = {"counts": (470, 14, 14, 14)}

PROGRAM = Program(
    "weld-vit",
    train,
    (
        Variant("warm-up-cosine"),
        Variant("branches-start-at-zero", {"zero_branches": True}),
        Variant("clips-every-step-smoothed", {"clip": 0.1, "smoothing": 0.1}),
        Variant("adapters-on-frozen", {"adapters": True, "lr": 6e-3}),
        Variant("few-augmented", {**FEW, "drop": 0.2}),
        Variant("skewed-sampled", {**SKEWED, "balance": "sampler"}),
        Variant(
            "cosine-over-epochs",
            {"horizon": "epochs", "warm_up": 5},
            "schedule-rhythm",
            "warm-up-cosine",
            also=("rate-decayed",),
        ),
        Variant("batch-not-first", {"batch_first": False}, "wrong-dimension", "warm-up-cosine"),
        Variant("constant-weights", {"init": "constant"}, "init-zero-or-symmetric", "warm-up-cosine"),
        Variant("blocks-in-a-list", {"blocks": "list"}, "wiring", "warm-up-cosine"),
        Variant("adam-with-its-decay", {"optimizer": "adam"}, "too-much-regularisation", "warm-up-cosine"),
        Variant("few-as-they-are", {**FEW, "augment": False}, "overfitting", "few-augmented"),
        Variant("skewed", SKEWED, "class-imbalance", "skewed-sampled"),
    ),
)
