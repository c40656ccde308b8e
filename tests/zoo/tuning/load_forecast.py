"""The load of a grid an hour ahead, from windows of three series. SGD, clipping, step decay, checkpoints."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

WINDOW = 16


def series(hours: int) -> np.ndarray:
    """Load in MW, temperature in degrees, price."""
    rng = np.random.default_rng(11)
    hour = np.arange(hours)
    shock = np.zeros(hours)
    for t in range(1, hours):
        shock[t] = 0.9 * shock[t - 1] + rng.normal(0, 0.25)
    temperature = 15 + 8 * np.sin(2 * np.pi * hour / 24) + 3 * shock + rng.normal(0, 0.5, hours)
    load = 500 + 80 * np.sin(2 * np.pi * hour / 24 + 1) + 40 * np.sin(2 * np.pi * hour / 12) + 60 * np.abs(shock)
    load = load + rng.normal(0, 10, hours)
    price = 40 + 0.05 * np.roll(load, 2) + 5 * shock + rng.normal(0, 1, hours)
    return np.stack([load, temperature, price], axis=1)


def windows(values: np.ndarray, ahead: int) -> tuple[Tensor, Tensor]:
    """Windows (count, WINDOW, 3), and the load some hours after each."""
    table = torch.tensor(values, dtype=torch.float32)
    count = len(table) - WINDOW
    past = table.unfold(0, WINDOW, 1).transpose(1, 2)
    return past[:count], table[WINDOW - 1 + ahead :, 0][:count]


class Recurrent(nn.Module):
    """An LSTM, or a plain recurrent network of ReLUs, and a head on its last state."""

    def __init__(self, cell: str, gain: float) -> None:
        super().__init__()
        self.cell: nn.LSTM | nn.RNN
        if cell == "lstm":
            self.cell = nn.LSTM(3, 24, batch_first=True)
        else:
            self.cell = nn.RNN(3, 24, nonlinearity="relu", batch_first=True)
            with torch.no_grad():
                dict(self.cell.named_parameters())["weight_hh_l0"].copy_(gain * torch.eye(24))
        self.head = nn.Linear(24, 1)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cell(x)
        out: Tensor = self.head(states[:, -1])
        return out.squeeze(-1)


class Convolutional(nn.Module):
    """Dilated convolutions, each added to what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.dilations = (1, 2, 4, 8)
        self.first = nn.Conv1d(3, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(16, 16, 2, dilation=d) for d in self.dilations)
        self.head = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.transpose(1, 2))
        for dilation, layer in zip(self.dilations, self.layers, strict=True):
            x = x[..., dilation:] + torch.relu(layer(x))
        out: Tensor = self.head(x[..., -1])
        return out.squeeze(-1)


def train(
    record: Record,
    seed: int,
    model: str = "lstm",
    gain: float = 1.0,
    lr: float = 0.05,
    loss: str = "l1",
    clip: float | None = 1.0,
    every: int = 4,
    gamma: float = 0.5,
    epochs: int = 10,
    size: int = 32,
    scaled: bool = True,
    ahead: int = 1,
    kilowatts_from: int | None = None,
    glitch_at: int | None = None,
    killed_at: int | None = None,
    resumes_at: int | None = None,
) -> float:
    torch.manual_seed(seed)
    values = series(1700)
    mean, std = values[:1100].mean(axis=0), values[:1100].std(axis=0)
    x, y = windows((values - mean) / std, ahead)
    if not scaled:
        y = y * std[0] + mean[0]
    x, test_x, y, test_y = x[:1084], x[1100:], y[:1084], y[1100:]

    def made() -> tuple[nn.Module, torch.optim.SGD, torch.optim.lr_scheduler.StepLR]:
        net = Convolutional() if model == "tcn" else Recurrent(model, gain)
        sgd = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        return net, sgd, torch.optim.lr_scheduler.StepLR(sgd, every, gamma)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for chosen in torch.randperm(len(x))[: len(x) // size * size].view(-1, size):
            yield x[chosen], y[chosen]

    criterion = {"l1": nn.L1Loss(), "mse": nn.MSELoss(), "huber": nn.SmoothL1Loss()}[loss]
    net, sgd, decay = made()
    steps = 0
    attempts = [(0, epochs)] if resumes_at is None else [(0, resumes_at), (resumes_at, epochs)]
    for first, last in attempts:
        if first:  # another job goes on where the first one stopped
            weights, state, position = net.state_dict(), sgd.state_dict(), decay.state_dict()
            net, sgd, decay = made()
            net.load_state_dict(weights)
            sgd.load_state_dict(state)
            decay.load_state_dict(position)
        with record(net, sgd, criterion, resume=first > 0) as recorder:
            for epoch in range(first, last):
                total = torch.zeros(())
                for past, following in batches():
                    if kilowatts_from is not None and epoch >= kilowatts_from:  # later files have another unit
                        following = following * 100
                    if glitch_at is not None and steps == glitch_at:
                        past, following = past * 20, following * 20
                    sgd.zero_grad()
                    with recorder.step() as step:
                        error = criterion(net(past), following)
                        step.backward(error)
                        if clip is not None:
                            nn.utils.clip_grad_norm_(net.parameters(), clip)
                    sgd.step()
                    total += error.detach()
                    steps += 1
                    if steps == killed_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                decay.step()
                recorder.log("train", epoch=epoch, mean_error=total / (len(x) // size))
                with torch.no_grad():
                    recorder.log("valid", epoch=epoch, loss=criterion(net(test_x), test_y))
    with torch.no_grad():
        off = (net(test_x) - test_y).abs().mean()
    return -float(off if scaled else off / std[0])


PROGRAM = Program(
    "load-forecast",
    train,
    (
        Variant("lstm"),
        Variant("mean-squares", {"loss": "mse"}),
        Variant("relu-recurrent", {"model": "relu", "lr": 0.005}),
        Variant("convolutions", {"model": "tcn", "lr": 0.02, "loss": "huber"}),
        Variant("resumed", {"resumes_at": 5}),
        Variant("clips-every-step", {"clip": 0.1, "lr": 0.2, "epochs": 12}),
        Variant("megawatts", {"scaled": False}, "unnormalised-targets", "lstm"),
        Variant(
            "relu-recurrent-gain-1.3",
            {"model": "relu", "gain": 1.3, "lr": 0.005, "clip": None},
            "exploding-gradients",
            "relu-recurrent",
            also=("init-too-large",),
        ),
        Variant("clip-1e-3", {"clip": 1e-3}, "clipping-too-tight", "lstm"),
        Variant("decays-tenfold-by-epoch", {"every": 1, "gamma": 0.1}, "rate-decayed", "lstm"),
        Variant("window-holds-answer", {"ahead": 0}, "leaked-answer", "lstm"),
        Variant(
            "unit-changes", {"kilowatts_from": 6, "clip": None}, "diverged", "lstm", also=("unnormalised-targets",)
        ),
        Variant("glitch", {"glitch_at": 270, "loss": "mse", "clip": None}, "spike", "mean-squares"),
        Variant("killed", {"killed_at": 210}, "killed", "lstm"),
    ),
)
