"""Pulses, a convolutional variational autoencoder with batch norm. Its own loss, Adam, a trainer class."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from zoo.program import Program, Record, Variant

LENGTH = 32


def pulses(count: int, seed: int) -> Tensor:
    """Curves (count, 1, LENGTH): a bump of some place, width and height, on a slow wave, with noise."""
    rng = torch.Generator().manual_seed(seed)
    place, width, height, phase = torch.rand(4, count, 1, generator=rng)
    time = torch.linspace(0, 1, LENGTH)[None]
    bump = (1 + 1.5 * height) * torch.exp(-(((time - 0.2 - 0.6 * place) / (0.04 + 0.08 * width)) ** 2))
    wave = 0.4 * torch.sin(2 * math.pi * (time + phase))
    return (bump + wave + 0.1 * torch.randn(count, LENGTH, generator=rng))[:, None] - 0.4


def norm(kind: str, channels: int) -> nn.Module:
    return nn.BatchNorm1d(channels) if kind == "batch" else nn.GroupNorm(4, channels)


class PulseVAE(nn.Module):
    """Encodes to 4 numbers, decodes with transposed convolutions."""

    def __init__(self, kind: str = "batch", bias: bool = False, variance: str = "log") -> None:
        super().__init__()
        self.variance = variance
        self.encoder = nn.Sequential(
            nn.Conv1d(1, 8, 4, 2, 1, bias=bias), norm(kind, 8), nn.ReLU(),
            nn.Conv1d(8, 16, 4, 2, 1, bias=bias), norm(kind, 16), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        self.to_mean, self.to_spread = nn.Linear(128, 4), nn.Linear(128, 4)
        self.from_latent = nn.Linear(4, 128)
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (16, 8)),
            nn.ConvTranspose1d(16, 8, 4, 2, 1, bias=bias), norm(kind, 8), nn.ReLU(),
            nn.ConvTranspose1d(8, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Reconstruction, mean and logarithm of the variance."""
        hidden = self.encoder(x)
        mean, spread = self.to_mean(hidden), self.to_spread(hidden)
        log_variance = spread if self.variance == "log" else spread.relu().log()
        latent = mean + torch.exp(log_variance / 2) * torch.randn_like(mean) if self.training else mean
        return self.decoder(self.from_latent(latent)), mean, log_variance


def terms(x: Tensor, made: tuple[Tensor, Tensor, Tensor], how: str = "squared") -> tuple[Tensor, Tensor]:
    """Reconstruction and divergence, per curve."""
    out, mean, log_variance = made
    off = (x - out).abs() * 3 if how == "absolute" else (x - out).square() / (2 * 0.15**2)
    return off.sum(dim=(1, 2)), 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)


@dataclass
class Trainer:
    """Trains a model for some epochs."""

    model: PulseVAE
    optimizer: torch.optim.Optimizer
    recorder: Any
    beta: float = 1.0
    anneals: int = 0
    how: str = "squared"
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None
    seen: int = field(default=0, init=False)

    def epoch(self, batches: DataLoader[Tensor], limit: int) -> None:
        """One pass over the curves, or until `limit` steps are over."""
        sums = torch.zeros(2)
        self.model.train()
        for x in batches:
            if self.seen >= limit:
                return
            self.optimizer.zero_grad()
            weight = self.beta * min(1.0, (self.seen + 1) / self.anneals) if self.anneals else self.beta
            with self.recorder.step() as step:
                reconstruction, divergence = terms(x, self.model(x), self.how)
                loss = (reconstruction + weight * divergence).mean() / LENGTH
                step.backward(loss)
            self.optimizer.step()
            self.seen += 1
            sums += torch.stack([reconstruction.detach().mean(), divergence.detach().mean()])
        if self.schedule is not None:
            self.schedule.step()
        reconstruction, divergence = sums / len(batches)
        self.recorder.log("train", reconstruction=reconstruction, divergence=divergence)

    def validate(self, x: Tensor) -> float:
        """Negative loss per curve, as it should be: with the divergence as it is."""
        self.model.eval()
        with torch.no_grad(), self.recorder.evaluate("valid"):
            reconstruction, divergence = terms(x, self.model(x))
        loss = float((reconstruction + divergence).mean() / LENGTH)
        self.recorder.log("valid", loss=loss)
        return -loss


def train(
    record: Record,
    seed: int,
    lr: float = 3e-3,
    batch: int = 32,
    epochs: int = 14,
    limit: int = 100_000,
    count: int = 800,
    kind: str = "batch",
    bias: bool = False,
    variance: str = "log",
    cosine: bool = False,
    **options: Any,
) -> float:
    torch.manual_seed(seed)
    curves, held_out = pulses(count, 1), pulses(500, 2)
    loader: DataLoader[Tensor] = DataLoader(curves, batch, shuffle=True)  # type: ignore[arg-type]
    vae = PulseVAE(kind, bias, variance)
    adam = torch.optim.Adam(vae.parameters(), lr)
    with record(vae, adam) as recorder:
        trainer = Trainer(vae, adam, recorder, **options)
        if cosine:
            trainer.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, epochs)
        for _ in range(epochs):
            trainer.epoch(loader, limit)
            score = trainer.validate(held_out)
    return score


PROGRAM = Program(
    "pulse-vae",
    train,
    (
        Variant("plain"),
        Variant("annealed", {"anneals": 150}),
        Variant("cosine", {"cosine": True}),
        Variant("absolute", {"how": "absolute"}),
        Variant("group-norm", {"kind": "group"}),
        Variant("continued", {"epochs": 20, "lr": 4e-3, "cosine": True, "anneals": 50}),
        Variant("biases", {"bias": True}, "bias-before-batch-norm", "plain"),
        Variant("relu-variance", {"variance": "relu"}, "nonfinite", "plain"),
        Variant("divergence-summed", {"beta": 32.0}, "too-much-regularisation", "plain"),
        Variant("divergence-subtracted", {"beta": -1.0}, "flipped-sign", "plain"),
        Variant("twos", {"kind": "group", "batch": 2, "limit": 350, "epochs": 1}, "batch-too-small", "group-norm"),
        Variant("rate-x100", {"lr": 0.3}, "rate-too-large", "plain"),
        Variant("rate-over-30", {"lr": 1e-4}, "rate-too-small", "plain"),
    ),
)
