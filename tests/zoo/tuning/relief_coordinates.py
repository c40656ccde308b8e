"""The relief of a landscape from coordinates: a smooth network is fitted to surveyed heights, all of them at once.

Adam at a working rate, then at a tenth of it; or gradient descent on the whole survey.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


def survey(points: int, seed: int) -> tuple[Tensor, Tensor]:
    """Positions in metres east and north, heights in metres above the sea."""
    chance = np.random.default_rng(seed)
    east, north = chance.uniform(0, 2000, (2, points))
    height = 410 + 90 * np.exp(-((east - 600) ** 2 + (north - 1400) ** 2) / 300**2)
    height += 60 * np.exp(-((east - 1500) ** 2 + (north - 500) ** 2) / 220**2)
    height += 25 * np.sin(east / 190 + north / 400) + 0.02 * north + chance.normal(0, 3, points)
    return torch.tensor(np.stack([east, north], axis=1)).float(), torch.tensor(height).float()[:, None]


class Sine(nn.Module):
    def __init__(self, frequency: float) -> None:
        super().__init__()
        self.frequency = frequency

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.frequency * x)


def network(activation: str, width: int, depth: int, frequency: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    inputs = 2
    for number in range(depth):
        linear = nn.Linear(inputs, width)
        if activation == "sine":
            bound = 1 / inputs if number == 0 else math.sqrt(6 / inputs) / frequency
            nn.init.uniform_(linear.weight, -bound, bound)
        layers += [linear, activations(activation, frequency)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def activations(name: str, frequency: float) -> nn.Module:
    if name == "sine":
        return Sine(frequency)
    return {"tanh": nn.Tanh, "silu": nn.SiLU, "sigmoid": nn.Sigmoid, "softplus": nn.Softplus}[name]()


def start_from(model: nn.Sequential, how: str) -> None:
    linears = [layer for layer in model if isinstance(layer, nn.Linear)]
    if how == "constant":
        for layer in linears:
            nn.init.constant_(layer.weight, 0.1)
            nn.init.zeros_(layer.bias)
    elif how == "wide":
        for layer in linears[:-1]:
            nn.init.normal_(layer.weight, std=3.0)
    elif how == "zero-head":
        nn.init.zeros_(linears[-1].weight)


def train(
    record: Record,
    seed: int,
    activation: str = "tanh",
    width: int = 40,
    depth: int = 3,
    frequency: float = 6.0,
    optimizer: str = "adam",
    rate: float = 1e-2,
    iterations: int = 400,
    batch: int | None = None,
    start: str = "usual",
    inputs: str = "scaled",
    outputs: str = "scaled",
    flat: bool = False,
    decay: float = 0.0,
    clip: float | None = None,
    drops: bool = True,
) -> float:
    torch.manual_seed(seed)
    x, y = survey(512, 0)
    test_x, test_y = survey(512, 1)
    middle, unit = y.mean(), y.std()
    if inputs == "scaled":
        x, test_x = x / 1000 - 1, test_x / 1000 - 1
    if outputs == "scaled":
        y, test_y = (y - middle) / unit, (test_y - middle) / unit

    model = network(activation, width, depth, frequency)
    start_from(model, start)
    made: torch.optim.Optimizer
    if optimizer == "adam":
        made = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    else:
        made = torch.optim.SGD(model.parameters(), rate, momentum=0.9 if optimizer == "momentum" else 0.0)
    criterion = nn.MSELoss()

    with record(model, made, criterion, hparams={"seed": seed, "activation": activation, "rate": rate}) as recorder:
        for iteration in range(iterations):
            if drops and iteration == 3 * iterations // 4:
                for group in made.param_groups:
                    group["lr"] /= 10
            chosen = slice(None) if batch is None else torch.randperm(len(x))[:batch]
            with recorder.step() as step:
                answer = model(x[chosen])
                loss = criterion(answer, y[chosen].squeeze(1) if flat else y[chosen])
                made.zero_grad()
                step.backward(loss)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            made.step()
            if iteration % 40 == 39:
                with torch.no_grad():
                    recorder.log("valid", loss=criterion(model(test_x), test_y))
        with torch.no_grad():
            error = (model(test_x) - test_y).square().mean().sqrt()
    return -float(error / unit if outputs != "scaled" else error)


PROGRAM = Program(
    "relief-coordinates",
    train,
    (
        Variant("tanh"),
        Variant("silu-batches", {"activation": "silu", "batch": 128}),
        Variant("siren", {"activation": "sine", "rate": 3e-3}),
        Variant("zero-head", {"start": "zero-head", "activation": "silu"}),
        Variant("momentum", {"optimizer": "momentum", "rate": 0.03}),
        Variant("clipped", {"clip": 0.02}),
        Variant("inputs-in-metres", {"inputs": "metres"}, "unnormalised-inputs", "tanh", also=("saturated-units",)),
        Variant("heights-in-metres", {"outputs": "metres"}, "unnormalised-targets", "tanh"),
        Variant("heights-flat", {"flat": True}, "silent-broadcast", "tanh"),
        Variant("weights-of-deviation-3", {"start": "wide"}, "saturated-units", "tanh", also=("init-too-large",)),
        Variant(
            "nine-sigmoids",
            {"activation": "sigmoid", "depth": 9, "optimizer": "momentum", "rate": 0.03},
            "vanishing-gradients",
            "momentum",
            also=("stalled",),
        ),
        Variant("constant-weights", {"start": "constant"}, "init-zero-or-symmetric", "tanh"),
        Variant("rate-over-30", {"rate": 1e-2 / 30}, "rate-too-small", "tanh"),
        Variant("rate-x10-throughout", {"rate": 0.1, "drops": False}, "oscillating", "tanh", also=("rate-too-large",)),
    ),
)
