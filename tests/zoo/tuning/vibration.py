"""An autoencoder squeezes vibration signals of a machine through eight numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from zoo.program import Program, Variant

LENGTH = 64


def signals(count: int, generator: torch.Generator) -> Tensor:
    """Sums of three tones of fixed pitch, random strength and phase: (count, 64), of about unit variance."""
    time = torch.linspace(0, 1, LENGTH)
    strength = 0.4 + torch.rand(count, 3, 1, generator=generator)
    phase = 2 * math.pi * torch.rand(count, 3, 1, generator=generator)
    pitch = torch.tensor([2.0, 5.0, 9.0])[None, :, None]
    return (strength * torch.sin(2 * math.pi * pitch * time + phase)).sum(1)


def autoencoder(activation: str, extra: int) -> nn.Sequential:
    """64 to 32 to 8 and back, with more layers of 32 on both sides when asked for."""
    act = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}[activation]
    sides = [32] * (extra + 1)
    widths = [LENGTH, *sides, 8, *sides]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers, nn.Linear(32, LENGTH))


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    activation: str = "relu",
    extra: int = 0,
    method: str = "adam",
    rate: float = 2e-3,
    steps: int = 800,
    noise: float = 0.3,
    sparsity: float = 0.0,
    hidden_bias: float = 0.0,
    glitch: int | None = None,
    loudness: float = 40.0,
    repair_glitch: bool = False,
) -> float:
    """Minus the mean squared error on clean signals that were not trained on."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    clean, test = signals(2000, generator), signals(500, generator)

    model = autoencoder(activation, extra)
    if hidden_bias:
        for module in list(model)[:-1]:
            if isinstance(module, nn.Linear):
                nn.init.constant_(module.bias, hidden_bias)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    if method == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    mse = nn.MSELoss()

    with record(model, optimizer, mse) as recorder:
        for it in range(steps):
            target = clean[torch.randint(len(clean), (48,), generator=generator)]
            if it == glitch:
                target = target * loudness  # the sensor hit its limits
            if repair_glitch:
                target = target.clamp(-5, 5)
            noisy = target + noise * torch.randn(target.shape, generator=generator)
            optimizer.zero_grad()
            with recorder.step() as step:
                if sparsity:
                    code = model[:2](noisy)
                    loss = mse(model[2:](code), target) + sparsity * code.abs().mean()
                else:
                    loss = mse(model(noisy), target)
                step.backward(loss)
            optimizer.step()
            if it % 80 == 79:
                with recorder.evaluate("valid"), torch.no_grad():
                    valid_loss = mse(model(test), test)
                recorder.log("valid", loss=valid_loss)
    return -float(valid_loss)


PROGRAM = Program(
    "vibration",
    train,
    (
        Variant("denoising"),
        Variant("sparse", {"sparsity": 0.02}),
        Variant("swamping-penalty", {"sparsity": 10.0}, "too-much-regularisation", "sparse"),
        Variant("deep-tanh", {"activation": "tanh", "extra": 2, "method": "sgd", "rate": 0.1, "steps": 1000}),
        Variant(
            "deep-sigmoid",
            {"activation": "sigmoid", "extra": 2, "method": "sgd", "rate": 0.1, "steps": 1000},
            "vanishing-gradients",
            "deep-tanh",
        ),
        Variant("bias-minus-3", {"hidden_bias": -3.0}, "dead-units", "denoising"),
        Variant("sgd", {"method": "sgd", "rate": 0.1}),
        Variant("glitch", {"glitch": 500}, "spike", "glitch-cut-off"),
        Variant("glitch-cut-off", {"glitch": 500, "repair_glitch": True}),
        Variant("glitch-sgd", {"glitch": 500, "loudness": 10.0, "method": "sgd", "rate": 0.1}, "spike", "sgd"),
    ),
)
