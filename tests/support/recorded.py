"""Tiny real trainings, recorded, for rules that judge what the recorder saw of data and losses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from analyzer.detectors.base import Detector
from analyzer.findings import Finding
from analyzer.run import Run, open_run
from recorder import Recorder

Batch = Callable[[int], tuple[Tensor, Tensor]]
"""Inputs and targets by step."""


def three_classes(index: int) -> tuple[Tensor, Tensor]:
    """16 points in four dimensions, and which of the first three coordinates is the largest."""
    inputs = torch.randn(16, 4)
    return inputs, inputs[:, :3].argmax(1)


def recorded(
    where: Path,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    *last: nn.Module,
    outputs: int = 3,
    batch: Batch = three_classes,
    steps: int = 40,
    lr: float = 0.1,
    first: tuple[nn.Module, ...] = (),
    **options: object,
) -> Run:
    """A small network, trained with the preset `basic`; `first` and `last` are modules before and behind it."""
    torch.manual_seed(0)
    model = nn.Sequential(*first, nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, outputs), *last)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, **options)  # type: ignore[arg-type]
    with Recorder(where, model, optimizer, preset="basic") as recorder:
        for index in range(steps):
            inputs, targets = batch(index)
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(loss_fn(model(inputs), targets))
            optimizer.step()
    return open_run(where)


def says(rule: Detector, run: Run) -> list[Finding]:
    """What a rule finds in a run."""
    return list(rule.detect(run))
