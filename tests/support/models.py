"""Small models of every kind whose individual gradients are checked, with inputs and targets."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class Residual(nn.Module):
    """An in-place residual addition, then an in-place activation."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(self.norm(x))
        out += x
        return F.relu(out, inplace=True)


class Tokens(nn.Module):
    """Embedding, position table in a module of its own, attention, recurrence, and a head tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8, padding_idx=0)
        self.position = Position()
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.recurrence = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.attention(self.embedding(x) + self.position())
        return self.head(self.recurrence(hidden)[0]).transpose(1, 2)


class Position(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 5, 8) * 0.1)

    def forward(self) -> Tensor:
        return self.table * 1.0


class Gru(nn.Module):
    """Time first, batch second."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 5, num_layers=2)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(x.transpose(0, 1))[0][-1])


class Scaled(nn.Module):
    """A composite module with a parameter of its own, and a module that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.3))
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(torch.tanh(self.layer(x))) * self.scale)


def vectors(n: int) -> Tensor:
    return torch.randn(n, 6, dtype=torch.float64)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor], Callable[[int], Tensor]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)),
        vectors,
        lambda n: torch.randint(0, 3, (n,)),
    ),
    "frozen layer": (
        lambda: nn.Sequential(nn.Linear(6, 5).requires_grad_(False), nn.Tanh(), nn.Linear(5, 3)),
        vectors,
        lambda n: torch.randint(0, 3, (n,)),
    ),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular", bias=False),
            nn.GroupNorm(2, 4),
            nn.GELU(),
            nn.ConvTranspose2d(4, 3, 2, stride=2),
            nn.PReLU(3),
            nn.Flatten(),
            nn.Linear(3 * 64, 3),
        ),
        lambda n: torch.randn(n, 2, 4, 4, dtype=torch.float64),
        lambda n: torch.randint(0, 3, (n,)),
    ),
    "batch norm in evaluation mode": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5).eval(), nn.Tanh(), nn.RMSNorm(5), nn.Linear(5, 3)),
        vectors,
        lambda n: torch.randint(0, 3, (n,)),
    ),
    "residual in place": (
        lambda: nn.Sequential(Residual(), Residual(), nn.Linear(6, 3)),
        vectors,
        lambda n: torch.randint(0, 3, (n,)),
    ),
    "weight norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)), nn.Tanh(), nn.Linear(5, 3)),
        vectors,
        lambda n: torch.randint(0, 3, (n,)),
    ),
    "tokens": (Tokens, lambda n: torch.randint(0, 11, (n, 5)), lambda n: torch.randint(0, 11, (n, 5))),
    "time first": (Gru, lambda n: torch.randn(n, 4, 6, dtype=torch.float64), lambda n: torch.randint(0, 3, (n,))),
    "called twice": (Scaled, vectors, lambda n: torch.randint(0, 3, (n,))),
}
