"""Pulses in noise, denoising autoencoders: signals made on the fly, functional losses, Adam, a step-based loop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

LENGTH = 48


def pulses(count: int, generator: torch.Generator | None = None) -> Tensor:
    """Two bumps of either sign on a slow wave."""
    time = torch.linspace(0, 1, LENGTH)
    draws = torch.rand(count, 8, generator=generator)
    signal = 0.4 * torch.sin(2 * torch.pi * (draws[:, :1] + (0.5 + draws[:, 1:2]) * time))
    for i in (2, 5):
        height = 2 * (draws[:, i : i + 1] - 0.5).sign() * (0.6 + draws[:, i + 1 : i + 2] / 2)
        signal = signal + height * torch.exp(-(((time - draws[:, i + 2 : i + 3]) / 0.06) ** 2))
    return signal


class ConvAutoencoder(nn.Module):
    def __init__(self, cut: bool, last: str) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, 12, 5, stride=2, padding=2), nn.GELU(), nn.Conv1d(12, 12, 5, stride=2, padding=2), nn.GELU()
        )
        self.to_code = nn.Linear(12 * LENGTH // 4, 24)
        self.from_code = nn.Linear(24, 12 * LENGTH // 4)
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(12, 12, 4, stride=2, padding=1), nn.GELU(), nn.ConvTranspose1d(12, 1, 4, 2, 1)
        )
        if last == "relu":
            self.decoder.append(nn.ReLU())
        self.cut = cut

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.to_code(self.encoder(x.unsqueeze(1)).flatten(1))
        passed = code.data if self.cut else code
        return self.decoder(self.from_code(passed).unflatten(1, (12, LENGTH // 4))).squeeze(1), code


class DeepAutoencoder(nn.Module):
    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        widths = (LENGTH, 48, 40, 32, 24, 32, 40, 48)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.activation = activation()
        self.out = nn.Linear(48, LENGTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = x
        for i, layer in enumerate(self.layers):
            x = self.activation(layer(x))
            code = x if i == 3 else code
        return self.out(x), code


class Denoising:
    """An endless stream of (noisy, clean) batches."""

    def __init__(self, steps: int, batch: int, noise: float, source: str, curriculum: bool) -> None:
        self.steps, self.batch, self.noise, self.source, self.curriculum = steps, batch, noise, source, curriculum
        self.pool = pulses(40 if source == "fixed-pool" else batch)
        self.noisy_pool = self.pool + noise * torch.randn_like(self.pool)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for number in range(self.steps):
            if self.source == "fixed-pool":
                rows = torch.randperm(len(self.pool))[: self.batch]
                yield self.noisy_pool[rows], self.pool[rows]
                continue
            clean = self.pool if self.source == "one-batch" else pulses(self.batch)
            level = self.noise * (min(1.0, number / (0.6 * self.steps)) if self.curriculum else 1.0)
            noisy = clean + level * torch.randn_like(clean)
            if self.source == "one-batch":
                noisy = self.noisy_pool
            if self.source == "noisy-pairs":  # nobody has seen the clean signal
                clean = clean + self.noise * torch.randn_like(clean)
            yield noisy, clean


def train(
    record: Record,
    seed: int,
    net: str = "conv",
    source: str = "fresh",
    rate: float = 2e-3,
    batch: int = 32,
    steps: int = 300,
    noise: float = 0.4,
    curriculum: bool = False,
    sparsity: float = 0.0,
    cut: bool = False,
    last: str = "linear",
    scaling: str | None = None,
    optimizer_name: str = "adam",
    clip: float = 0.5,
) -> float:
    torch.manual_seed(seed)
    data = Denoising(steps, batch, noise, source, curriculum)
    generator = torch.Generator().manual_seed(99)
    held_out = pulses(256, generator) if source != "one-batch" else data.pool.repeat(8, 1)  # with noise of its own
    noisy_held_out = held_out + noise * torch.randn(held_out.shape, generator=generator)
    if source == "one-batch":
        noisy_held_out = held_out + 0.1 * (noisy_held_out - held_out)

    model: nn.Module
    if net == "conv":
        model = ConvAutoencoder(cut, last)
    else:
        model = DeepAutoencoder({"deep-sigmoid": nn.Sigmoid, "deep-elu": nn.ELU}[net])
    optimizer: torch.optim.Optimizer
    if optimizer_name == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.99))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=100, enabled=scaling is not None)
    mode = "overfit-batch" if source == "one-batch" else "train"

    with record(model, optimizer, mode=mode) as recorder:
        for number, (noisy, clean) in enumerate(data, 1):
            optimizer.zero_grad()
            with recorder.step() as step:
                denoised, code = model(noisy)
                loss = F.mse_loss(denoised, clean)
                if sparsity:
                    loss = loss + sparsity * code.abs().mean()
                step.backward(loss, scaler=scaler if scaling else None)
            if scaling == "unscaled-first":
                scaler.unscale_(optimizer)
            if scaling:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            if number % 50 == 0 and source != "one-batch":
                with torch.no_grad():
                    error = F.mse_loss(model(noisy_held_out)[0], held_out)
                recorder.log("valid", mse=error)
    with torch.no_grad():
        return -float(F.mse_loss(model(noisy_held_out)[0], held_out))


PROGRAM = Program(
    "pulse-denoiser",
    train,
    (
        Variant("conv"),
        Variant("deep-elu", {"net": "deep-elu"}),
        Variant("scaled-sgd", {"scaling": "unscaled-first", "optimizer_name": "sgd", "rate": 0.2}),
        Variant("sparse-code", {"sparsity": 0.01}),
        Variant("noisy-pairs", {"source": "noisy-pairs"}),
        Variant("noise-grows", {"curriculum": True, "noise": 0.6}),
        Variant("one-batch", {"source": "one-batch", "rate": 4e-3, "noise": 0.1}),
        Variant("deep-sigmoid", {"net": "deep-sigmoid"}, "vanishing-gradients", "deep-elu"),
        Variant("code-data", {"cut": True}, "wiring", "conv"),
        Variant(
            "clips-scaled-gradients",
            {"scaling": "clipped-first", "optimizer_name": "sgd", "rate": 0.2},
            "clipping-before-unscaling",
            "scaled-sgd",
        ),
        Variant(
            "relu-at-the-end",
            {"source": "one-batch", "rate": 4e-3, "noise": 0.1, "last": "relu"},
            "does-not-fit-one-batch",
            "one-batch",
        ),
        Variant("sparsity-subtracted", {"sparsity": -0.5}, "flipped-sign", "sparse-code"),
        Variant("40-signals", {"source": "fixed-pool", "steps": 450}, "overfitting", "conv"),
        Variant("rate-over-40", {"rate": 5e-5}, "rate-too-small", "conv"),
    ),
)
