"""The models whose training is timed.

A small MLP, a small CNN, and 3c3d of DeepOBS (Schneider, Balles & Hennig 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Problem:
    """A model with a fixed synthetic batch.

    `window`: steps timed together, a multiple of 16, so that probes at every 16th step weigh as they should.
    """

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    window: int

    def batch(self) -> tuple[Tensor, Tensor]:
        """Inputs and integer targets of ten classes, the same at every call."""
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(self.shape, generator=generator)
        return inputs, torch.randint(0, 10, (self.shape[0],), generator=generator)


def mlp() -> nn.Module:
    """784-128-64-10, 109 386 parameters."""
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> nn.Module:
    """Two convolutions and two linear layers on 1x16x16 images, about 35 000 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 56), nn.ReLU(), nn.Linear(56, 10),
    )  # fmt: skip


def net_3c3d() -> nn.Module:
    """3c3d on 3x32x32 images, 895 210 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(64, 96, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(96, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Flatten(), nn.Linear(1152, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10),
    )  # fmt: skip


PROBLEMS = (
    Problem("mlp", mlp, (64, 784), 208),
    Problem("cnn", cnn, (32, 1, 16, 16), 48),
    Problem("3c3d", net_3c3d, (128, 3, 32, 32), 16),
)
