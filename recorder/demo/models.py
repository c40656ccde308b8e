"""The networks of the demo: images of shape (batch, 1, 8, 8) in, logits of shape (batch, 10) out."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class ConvNet(nn.Module):
    """Two convolutions, then two linear layers: some 6 000 parameters."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(8 * channels, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images: Tensor) -> Tensor:
        """The logits of the ten digits."""
        logits: Tensor = self.head(self.backbone(images))
        return logits


def deep_mlp(depth: int, activation: Callable[[], nn.Module], width: int = 64) -> nn.Sequential:
    """As many hidden layers of one width as `depth` says, each followed by the activation."""
    layers: list[nn.Module] = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), activation()]
    return nn.Sequential(*layers, nn.Linear(width, 10))
