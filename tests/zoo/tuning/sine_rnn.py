"""Noisy sine waves, a recurrent network predicts the next value. Teacher forcing, clipping by norm, no loss module."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


def waves(count: int, length: int, noise: float = 0.1) -> Tensor:
    phase, period = 2 * math.pi * torch.rand(count, 1), 6 + 8 * torch.rand(count, 1)
    return torch.sin(2 * math.pi * torch.arange(length) / period + phase) + noise * torch.randn(count, length)


class Forecaster(nn.Module):
    def __init__(self, cell: str, gain: float) -> None:
        super().__init__()
        if cell == "gru":
            self.rnn: nn.RNNBase = nn.GRU(1, 20, batch_first=True)
        else:
            self.rnn = nn.RNN(1, 20, batch_first=True, nonlinearity=cell)
            nn.init.orthogonal_(self.rnn.all_weights[0][1], gain=gain)
        self.readout = nn.Linear(20, 1)

    def forward(self, values: Tensor) -> Tensor:
        hidden, _ = self.rnn(values.unsqueeze(-1))
        out: Tensor = self.readout(hidden).squeeze(-1)
        return out


def train(
    record: Record,
    seed: int,
    cell: str = "gru",
    gain: float = 1.0,
    lr: float = 5e-3,
    sgd: bool = False,
    clip: float | None = 1.0,
    steps: int = 300,
    corrupt: tuple[int, float] | None = None,
    missing_at: int | None = None,
    stalls: tuple[int, ...] = (),
    drift: float = 1.0,
) -> float:
    torch.manual_seed(seed)
    model = Forecaster(cell, gain)
    optimizer: torch.optim.Optimizer
    if sgd:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(optimizer, drift)

    with record(model, optimizer) as recorder:
        for i in range(steps):
            batch = waves(24, 18)
            if corrupt is not None and i == corrupt[0]:  # a sensor reports in another unit
                batch[:8] *= corrupt[1]
            if i == missing_at:
                batch[3, 7] = torch.nan
            if i in stalls:
                time.sleep(0.4)
            optimizer.zero_grad()
            with recorder.step() as step:
                predicted = model(batch[:, :-1])
                loss = ((predicted - batch[:, 1:]) ** 2).mean()
                step.backward(loss, outputs=predicted, targets=batch[:, 1:])
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=clip)
            optimizer.step()
            sched.step()

    torch.manual_seed(1000)
    test = waves(300, 18)
    with torch.no_grad():
        return -float(((model(test[:, :-1]) - test[:, 1:]) ** 2).mean())


PROGRAM = Program(
    "sine-rnn",
    train,
    (
        Variant("gru"),
        Variant("gru-sgd", {"sgd": True, "lr": 0.1, "clip": 1.0}),
        Variant("gru-clipped-every-step", {"clip": 0.02}),
        Variant("tanh", {"cell": "tanh", "lr": 3e-3}),
        Variant("relu-clipped", {"cell": "relu", "gain": 1.0, "sgd": True, "lr": 0.02, "clip": 1.0}),
        Variant(
            "relu-gain-1.8",
            {"cell": "relu", "gain": 1.8, "sgd": True, "lr": 0.02, "clip": None},
            "exploding-gradients",
            "relu-clipped",
        ),
        Variant(
            "relu-gain-2",
            {"cell": "relu", "gain": 2.0, "sgd": True, "lr": 1e-4, "clip": None},
            "exploding-gradients",
            "relu-clipped",
            also=("init-too-large",),
        ),
        Variant(
            "relu-gain-2-adam",
            {"cell": "relu", "gain": 2.0, "clip": None},
            "exploding-gradients",
            "relu-clipped",
            also=("init-too-large",),
        ),
        Variant("clip-over-1000", {"sgd": True, "lr": 0.1, "clip": 1e-3}, "clipping-too-tight", "gru-sgd"),
        Variant("clip-over-100", {"sgd": True, "lr": 0.1, "clip": 1e-2}, "clipping-too-tight", "gru-sgd"),
        Variant("bad-batch-late", {"corrupt": (270, 30.0), "sgd": True, "lr": 0.1, "clip": None}, "spike", "gru-sgd"),
        Variant("bad-batch", {"corrupt": (200, 100.0), "clip": None, "lr": 0.01}, "spike", "gru"),
        Variant("missing-value", {"missing_at": 180}, "nonfinite", "gru"),
        Variant("slow-loader", {"stalls": tuple(range(200, 206))}, "throughput", "gru"),
        Variant("rate-grows", {"drift": 1.02, "clip": None}, "rate-too-large", "gru", also=("schedule-rhythm",)),
        Variant("rate-x100", {"lr": 0.5}, "rate-too-large", "gru"),
        Variant("rate-over-1000", {"lr": 5e-6}, "rate-too-small", "gru"),
    ),
)
