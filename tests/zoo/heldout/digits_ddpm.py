"""Digits from digits of a quarter of the pixels, by diffusion: a residual net learns the noise that was added.

Adam, an average of the weights, batches drawn by index in a loop over steps, the error written out. Nothing is logged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

LEVELS = 100


def signal_share(levels: Tensor) -> Tensor:
    """The cosine schedule of Nichol and Dhariwal: how much of the variance is the image's."""
    shares = torch.cos((levels.float() / LEVELS + 0.008) / 1.008 * math.pi / 2) ** 2
    return shares.clamp(1e-3, 0.999).reshape(-1, 1, 1, 1)


def noised(images: Tensor, levels: Tensor, noise: Tensor) -> Tensor:
    share = signal_share(levels)
    return share.sqrt() * images + (1 - share).sqrt() * noise


def blurred(images: Tensor) -> Tensor:
    small = nn.functional.avg_pool2d(images, 2)
    return nn.functional.interpolate(small, scale_factor=2.0, mode="nearest")


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(32, channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = self.conv1(torch.nn.functional.silu(self.norm1(x)))
        h = h + self.time(time)[:, :, None, None]
        out: Tensor = x + self.conv2(torch.nn.functional.silu(self.norm2(h)))
        return out


class SigmoidBlock(nn.Module):
    """As networks looked before."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(32, channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = torch.sigmoid(self.conv1(x) + self.time(time)[:, :, None, None])
        return torch.sigmoid(self.conv2(h))


class Denoiser(nn.Module):
    def __init__(self, block: str, depth: int, channels: int) -> None:
        super().__init__()
        kind = {"residual": ResidualBlock, "sigmoid": SigmoidBlock}[block]
        self.register_buffer("frequencies", torch.logspace(0, 2, 8), persistent=False)
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU())
        self.first = nn.Conv2d(2, channels, 3, padding=1)
        self.blocks = nn.ModuleList(kind(channels) for _ in range(depth))
        self.last = nn.Conv2d(channels, 1, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, noisy: Tensor, levels: Tensor, condition: Tensor) -> Tensor:
        angles = levels[:, None] / LEVELS * self.frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.first(torch.cat([noisy, condition], dim=1))
        for block in self.blocks:
            x = block(x, time)
        out: Tensor = self.last(x)
        return out


class Average:
    """An exponential moving average of weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            self.weights[name].lerp_(p.detach(), 1 - self.decay)


def rate_at(step: int, steps: int, how: str) -> float:
    """As a share of the rate asked for."""
    if how == "warm-up-cosine":
        return min(1.0, (step + 1) / 40) * 0.5 * (1 + math.cos(math.pi * step / steps))
    if how == "restarts":
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step % 84) / 84))
    return float(how) ** step  # decays by this much at each step


def train(
    record: Record,
    seed: int,
    lr: float = 4e-3,
    decay: str = "1.0",
    steps: int = 250,
    batch: int = 32,
    grey: str = "-1..1",
    condition: str = "blurred",
    noise_of_its_own: bool = False,
    block: str = "residual",
    depth: int = 2,
    channels: int = 16,
    curriculum: bool = False,
    hidden: float = 0.0,
    resume_at: int | None = None,
    weight_decay: float = 0.0,
) -> float:
    torch.manual_seed(seed)
    pixels = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1)
    images = pixels / 8 - 1 if grey == "-1..1" else pixels
    images, held_out = images[:1400], images[1400:]

    def conditions(clean: Tensor) -> Tensor:
        return blurred(clean) if condition == "blurred" else clean

    model = Denoiser(block, depth, channels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    average = Average(model, 0.97)

    def part(first: int, last: int, **options: Any) -> None:
        with record(model, optimizer, **options) as recorder:
            for at in range(first, last):
                for group in optimizer.param_groups:
                    group["lr"] = lr * rate_at(at, steps, decay)
                clean = images[torch.randint(len(images), (batch,))]
                easiest = int(LEVELS * 0.6 * max(0.0, 1 - at / (0.5 * steps))) if curriculum else 0
                levels = torch.randint(easiest, LEVELS, (batch,))  # from what is nearly noise to all levels
                noise = torch.randn_like(clean)
                noisy = noised(clean, levels, noise)
                if noise_of_its_own:
                    noise = torch.randn_like(clean)
                shown = conditions(clean) * (torch.rand(batch, 1, 1, 1) >= hidden)
                with recorder.step() as step:
                    predicted = model(noisy, levels, shown)
                    loss = ((predicted - noise) ** 2).mean()
                    step.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                average.update(model)

    if resume_at is None:
        part(0, steps)
    else:
        part(0, resume_at)
        saved: Mapping[str, Any] = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        model = Denoiser(block, depth, channels)
        model.load_state_dict(saved["model"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
        optimizer.load_state_dict(saved["optimizer"])
        part(resume_at, steps, resume=True, first_step=resume_at)

    model.load_state_dict(average.weights)
    rng = torch.Generator().manual_seed(99)
    noise = torch.randn(held_out.shape, generator=rng)
    levels = torch.arange(len(held_out)) % LEVELS
    with torch.no_grad():
        predicted = model(noised(held_out, levels, noise), levels, conditions(held_out))
    return -float(((predicted - noise) ** 2).mean())


DEEPER = {"depth": 4, "channels": 12, "steps": 180}

PROGRAM = Program(
    "digits-ddpm",
    train,
    (
        Variant("constant-rate"),
        Variant("warm-up-cosine-condition-hidden", {"decay": "warm-up-cosine", "weight_decay": 0.02, "hidden": 0.2}),
        Variant("restarts", {"decay": "restarts"}),
        Variant("resumed", {"resume_at": 140}),
        Variant("noisiest-first", {"curriculum": True}),
        Variant("deeper", DEEPER),
        Variant("draws-noise-again", {"noise_of_its_own": True}, "wrong-labels", "constant-rate"),
        Variant("sees-the-digit", {"condition": "clean"}, "leaked-answer", "constant-rate"),
        Variant("grey-to-16", {"grey": "0..16"}, "unnormalised-inputs", "constant-rate"),
        Variant("decays-by-0.96-each-step", {"decay": "0.96"}, "rate-decayed", "constant-rate"),
        Variant("deeper-sigmoids", {**DEEPER, "block": "sigmoid"}, "vanishing-gradients", "deeper"),
        Variant("rate-x15", {"lr": 0.06}, "rate-too-large", "constant-rate"),
        Variant("two-digits-a-step", {"batch": 2}, "batch-too-small", "constant-rate"),
    ),
)
