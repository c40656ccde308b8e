"""Water levels of harbours, hours ahead: a small transformer over patches that forecasts quantiles.

Counts steps, not epochs; AdamW, warm-up and cosine, clipping; a pinball loss written out; nothing is logged.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

HARBOURS, HOURS = 6, 900
PAST, PATCH, AHEAD = 36, 6, 6
Windows = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
QUANTILES = torch.tensor([0.1, 0.5, 0.9])


def gauges() -> Tensor:
    """Levels in metres (harbours, hours): tides of two periods, and a surge that wanders."""
    chance = torch.Generator().manual_seed(11)
    hours = torch.arange(HOURS)
    height = 0.6 + 1.2 * torch.rand(HARBOURS, 2, 1, generator=chance)
    phase = 6.3 * torch.rand(HARBOURS, 2, 1, generator=chance)
    periods = torch.tensor([12.4, 24.8])[:, None]
    tide = (height * torch.sin(2 * math.pi * hours / periods + phase)).sum(dim=1)
    surge = torch.zeros(HARBOURS, HOURS)
    for hour in range(1, HOURS):
        surge[:, hour] = 0.95 * surge[:, hour - 1] + 0.12 * torch.randn(HARBOURS, generator=chance)
    return 4.0 + tide + surge


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(dim=-1)
        mixed: Tensor = self.mix((weights @ value).transpose(1, 2).flatten(2))
        return mixed


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float, zero_init: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        last = nn.Linear(2 * width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), last)
        self.dropout = nn.Dropout(dropout)
        if zero_init:  # each block is the identity at first
            for layer in (self.attention.mix, last):
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        out: Tensor = x + self.dropout(self.mlp(self.norm2(x)))
        return out


class Adapter(nn.Module):
    """A bottleneck beside what is frozen, nothing at first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, 6), nn.Linear(6, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.up(self.down(x).relu())
        return x + added


class Forecaster(nn.Module):
    def __init__(self, width: int = 16, depth: int = 2, dropout: float = 0.0, zero_init: bool = False) -> None:
        super().__init__()
        self.patch = nn.Linear(PATCH, width)
        self.position = nn.Embedding(PAST // PATCH, width)
        self.harbour = nn.Embedding(HARBOURS, width)
        self.blocks = nn.Sequential(*(Block(width, 4, dropout, zero_init) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.encoder_learns = True
        self.out = nn.Linear(PAST // PATCH * width, AHEAD * len(QUANTILES))

    def forward(self, past: Tensor, harbour: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.encoder_learns and torch.is_grad_enabled()):
            patches = past.unflatten(1, (-1, PATCH))
            places = torch.arange(PAST // PATCH).expand(len(past), -1)
            tokens = self.patch(patches) + self.position(places) + self.harbour(harbour)[:, None]
            encoded = self.blocks(tokens)
        quantiles: Tensor = self.out(self.norm(encoded).flatten(1)).unflatten(1, (AHEAD, -1))
        return quantiles


def pinball(quantiles: Tensor, truth: Tensor) -> Tensor:
    missed = truth.unsqueeze(-1) - quantiles
    return torch.maximum(QUANTILES * missed, (QUANTILES - 1) * missed).mean()


def rate_at(step: int, steps: int, schedule: str) -> float:
    """The factor of the learning rate."""
    if schedule == "restarts":
        return 0.5 * (1 + math.cos(math.pi * (step % (steps // 3 + 1)) / (steps // 3 + 1)))
    if schedule == "cosine-of-another-run":  # its length is that of a run on a tenth of the data
        return 0.5 * (1 + math.cos(math.pi * min(1.0, step / (steps // 10))))
    warm = min(1.0, (step + 1) / 25)
    return warm * 0.5 * (1 + math.cos(math.pi * step / steps))


def initialise(model: nn.Module) -> None:
    """One small number for all, after an example for a linear model."""
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.05)


def pretrain(model: Forecaster, windows: Windows, until: int) -> None:
    """Some steps on the first hours of three harbours."""
    optimizer = torch.optim.AdamW(model.parameters(), 8e-3)
    for _ in range(100):
        harbour = torch.randint(3, (24,))
        x, y = windows(harbour, torch.randint(until - PAST - AHEAD, (24,)))
        optimizer.zero_grad()
        pinball(model(x, harbour), y).backward()
        optimizer.step()


def train(
    record: Record,
    seed: int,
    rate: float = 8e-3,
    schedule: str = "warm-up",
    weight_decay: float = 0.01,
    dropout: float = 0.0,
    zero_init: bool = False,
    batch: int = 24,
    steps: int = 220,
    clip: float = 1.0,
    alike: bool = False,
    trains: str = "all",
    scaled: bool = True,
    gap: bool = False,
    horizon_grows: bool = False,
) -> float:
    torch.manual_seed(seed)
    levels = gauges()
    split = int(0.75 * HOURS)
    mean, std = levels[:, :split].mean(), levels[:, :split].std()
    series = (levels - mean) / std
    past = series if scaled else 1000 * levels  # millimetres, as the gauges deliver them
    if gap:  # a gauge that was out of order for a night
        past = past.clone()
        past[4, 300:309] = math.nan

    def windows(harbour: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        at = start[:, None] + torch.arange(PAST + AHEAD)
        return past[harbour[:, None], at[:, :PAST]], series[harbour[:, None], at[:, PAST:]]

    model: Forecaster = Forecaster(dropout=dropout, zero_init=zero_init)
    if alike:
        initialise(model)
    if trains == "adapters":
        pretrain(model, windows, split // 2)
        model.requires_grad_(False)
        model.out.requires_grad_(True)
        model.blocks = nn.Sequential(*(nn.Sequential(block, Adapter(16)) for block in model.blocks))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, rate, weight_decay=weight_decay)
    if trains == "no-encoder":  # left over from when there was a pretrained one
        model.encoder_learns = False
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, steps, schedule))

    with record(model, optimizer) as recorder:
        for number in range(steps):
            harbour = torch.randint(HARBOURS, (batch,))
            x, y = windows(harbour, torch.randint(split - PAST - AHEAD, (batch,)))
            ahead = min(AHEAD, 1 + number * AHEAD // 120) if horizon_grows else AHEAD
            optimizer.zero_grad(set_to_none=True)
            with recorder.step() as step:
                loss = pinball(model(x, harbour)[:, :ahead], y[:, :ahead])
                step.backward(loss)
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()

    model.eval()
    starts = torch.arange(split, HOURS - PAST - AHEAD, 3)
    harbour = torch.arange(HARBOURS).repeat_interleave(len(starts))
    x, y = windows(harbour, starts.repeat(HARBOURS))
    with torch.no_grad():
        return -float(pinball(model(x, harbour), y))


PROGRAM = Program(
    "harbour-quantiles",
    train,
    (
        Variant("plain"),
        Variant("restarts", {"schedule": "restarts"}),
        Variant("branches-from-zero", {"zero_init": True, "dropout": 0.1}),
        Variant("adapters", {"trains": "adapters", "steps": 180}),
        Variant("tiny-batches", {"batch": 8, "rate": 4e-3, "steps": 350}),
        Variant("horizon-grows", {"horizon_grows": True}),
        Variant("rate-over-30", {"rate": 8e-3 / 30}, "rate-too-small", "plain"),
        Variant("cosine-of-another-run", {"schedule": "cosine-of-another-run"}, "rate-decayed", "plain"),
        Variant("all-weights-alike", {"alike": True}, "init-zero-or-symmetric", "plain"),
        Variant("encoder-without-gradient", {"trains": "no-encoder"}, "wiring", "plain"),
        Variant("gap-in-a-gauge", {"gap": True}, "nonfinite", "plain"),
        Variant("weight-decay-x500", {"weight_decay": 5.0}, "too-much-regularisation", "plain"),
        Variant("millimetres", {"scaled": False}, "unnormalised-inputs", "plain"),
    ),
)
