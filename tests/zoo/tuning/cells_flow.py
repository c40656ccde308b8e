"""The density of measurements of cells (breast cancer data): affine couplings, by maximum likelihood, step by step.

There is no loss function and there are no targets: the model gives the log-likelihood itself.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

FEATURES = 10


def cells(scaled: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Measurements to train and to test on, and the units that they are in."""
    values = load_breast_cancer().data[:, :FEATURES]
    values = values[np.random.default_rng(3).permutation(len(values))]
    mean, unit = values[:400].mean(axis=0), values[:400].std(axis=0)
    if scaled:
        values, unit = (values - mean) / unit, np.ones(FEATURES)
    table = torch.tensor(values).float()
    return table[:400], table[400:], torch.tensor(unit).float()


def endless(table: Tensor, size: int) -> Iterator[Tensor]:
    while True:
        for chosen in torch.randperm(len(table)).split(size):
            if len(chosen) == size:
                yield table[chosen]


class Coupling(nn.Module):
    """Scales and moves one half of the features by what the other half says."""

    def __init__(self, hidden: int, odd: bool, bounded: bool, zero: bool) -> None:
        super().__init__()
        self.odd, self.bounded = odd, bounded
        half = FEATURES // 2
        self.net = nn.Sequential(
            nn.Linear(half, hidden), nn.LeakyReLU(0.05), nn.Linear(hidden, hidden), nn.LeakyReLU(0.05)
        )
        self.last = nn.Linear(hidden, 2 * half)
        if zero:  # the identity, to begin with
            nn.init.zeros_(self.last.weight)
            nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept, moved = x.chunk(2, dim=1)
        if self.odd:
            kept, moved = moved, kept
        scale, shift = self.last(self.net(kept)).chunk(2, dim=1)
        if self.bounded:
            scale = 2 * torch.tanh(scale / 2)
        moved = moved * scale.exp() + shift
        return torch.cat([moved, kept] if self.odd else [kept, moved], dim=1), scale.sum(dim=1)


class Flow(nn.Module):
    def __init__(self, couplings: int, hidden: int, bounded: bool, zero: bool, registered: bool) -> None:
        super().__init__()
        steps = [Coupling(hidden, bool(number % 2), bounded, zero) for number in range(couplings)]
        if registered:
            self.couplings = nn.ModuleList(steps)
        else:  # a plain list hides all but the first from the optimizer
            self.first, self.others = steps[0], steps[1:]
        self.registered = registered
        self.register_buffer("shuffles", torch.stack([torch.randperm(FEATURES) for _ in steps]))

    def forward(self, x: Tensor) -> Tensor:
        """The log-likelihood of each row."""
        total = torch.zeros(len(x))
        for number, coupling in enumerate(self.couplings if self.registered else [self.first, *self.others]):
            x, change = coupling(x[:, self.shuffles[number]])
            total = total + change
        return total - x.square().sum(dim=1) / 2 - FEATURES / 2 * math.log(2 * math.pi)


def train(
    record: Record,
    seed: int,
    rate: float = 3e-3,
    optimizer_name: str = "adam",
    couplings: int = 4,
    hidden: int = 24,
    bounded: bool = True,
    zero: bool = True,
    registered: bool = True,
    scaled: bool = True,
    rows: int = 400,
    size: int = 64,
    steps: int = 350,
    decay: float = 1e-3,
    sign: float = 1.0,
    clears: bool = True,
    clip: float | None = None,
    jitter: float = 0.05,
    restarts: bool = False,
    noise_floor: bool = False,
    bad_batch: int | None = None,
    dies_at: int | None = None,
) -> float:
    torch.manual_seed(seed)
    table, held_out, unit = cells(scaled)
    flow = Flow(couplings, hidden, bounded, zero, registered)
    optimizer: torch.optim.Optimizer
    if optimizer_name == "adam":
        optimizer = torch.optim.AdamW(flow.parameters(), lr=rate, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(flow.parameters(), lr=rate, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, -(-steps // 3)) if restarts else None
    rows_of = endless(table[:rows], min(size, rows))
    with record(flow, optimizer) as recorder:
        for number in range(steps):
            batch = next(rows_of)
            batch = batch + jitter * torch.randn_like(batch)
            if number == bad_batch:
                batch = batch * 40  # a file in other units
            if number == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)  # as a machine out of memory does
            with recorder.step() as step:
                loss = -sign * flow(batch).mean()
                step.backward(loss)
            if clip is not None:
                nn.utils.clip_grad_norm_(flow.parameters(), clip)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            if clears:
                optimizer.zero_grad()
            if number % 25 == 24:
                with recorder.evaluate("valid"), torch.no_grad():
                    nats = flow(held_out).mean()
                recorder.log("valid", loss=-nats)
    with torch.no_grad():
        return float((flow(held_out) + unit.log().sum()).mean()) / FEATURES


PROGRAM = Program(
    "cells-flow",
    train,
    (
        Variant("plain"),
        Variant("usual-weights", {"zero": False}),
        Variant("unbounded", {"bounded": False}),
        Variant("restarts", {"restarts": True}),
        Variant("clips-every-step", {"clip": 0.3}),
        Variant("momentum", {"optimizer_name": "sgd", "rate": 3e-3, "steps": 450}),
        Variant("likelihood-minimised", {"sign": -1.0}, "flipped-sign", "plain", also=("diverged",)),
        Variant("rate-x30", {"rate": 0.09}, "rate-too-large", "plain"),
        Variant(
            "unbounded-at-a-high-rate",
            {"bounded": False, "zero": False, "optimizer_name": "sgd", "rate": 0.1},
            "nonfinite",
            "momentum",
            also=("exploding-gradients", "rate-too-large"),
        ),
        Variant("couplings-in-a-list", {"registered": False, "zero": False}, "wiring", "usual-weights"),
        Variant("gradients-kept", {"clears": False}, "no-zero-grad", "plain"),
        Variant("120-rows", {"rows": 120, "hidden": 64, "jitter": 0.0, "decay": 0.0}, "overfitting", "plain"),
        Variant("file-in-other-units", {"bad_batch": 320}, "spike", "plain"),
        Variant("out-of-memory", {"dies_at": 220}, "killed", "plain"),
    ),
)
