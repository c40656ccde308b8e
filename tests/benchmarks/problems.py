"""The models whose training is timed.

A small MLP, a small CNN, 3c3d of DeepOBS (Schneider, Balles & Hennig 2019), and ResNet-50 (He et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Problem:
    """A model with a fixed synthetic batch.

    `window`: steps timed together, 256 or a smaller multiple of 32. `rounds`: how often each arm has its turn.
    """

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int = 10
    window: int = 256
    rounds: int = 15

    def batch(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Inputs and integer targets, the same at every call."""
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(self.shape, generator=generator)
        targets = torch.randint(0, self.classes, (self.shape[0],), generator=generator)
        return inputs.to(device), targets.to(device)


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


class Bottleneck(nn.Module):
    """Three convolutions around which the input is added, projected where it changes its shape."""

    def __init__(self, entering: int, width: int, stride: int) -> None:
        super().__init__()
        leaving = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(entering, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, leaving, 1, bias=False), nn.BatchNorm2d(leaving),
        )  # fmt: skip
        self.shortcut = (
            nn.Identity()
            if entering == leaving and stride == 1
            else nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving))
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        out += self.shortcut(x)
        return self.relu(out)


def resnet_50() -> nn.Module:
    """ResNet-50 on 3x224x224 images, with the stride in the 3x3 convolutions, 25 557 032 parameters."""
    blocks, entering = [], 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(count):
            blocks.append(Bottleneck(entering, width, 2 if index == 0 and width > 64 else 1))
            entering = 4 * width
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000),
    )  # fmt: skip


PROBLEMS = (
    Problem("mlp", mlp, (64, 784)),
    Problem("cnn", cnn, (32, 1, 16, 16)),
    Problem("3c3d", net_3c3d, (128, 3, 32, 32), window=32, rounds=5),
)
RESNET_50 = Problem("resnet-50", resnet_50, (64, 3, 224, 224), classes=1000, window=32)
