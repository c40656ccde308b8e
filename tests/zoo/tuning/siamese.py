"""Two towers with shared weights learn which of two noisy vectors show the same thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo.program import Program, Variant

THINGS, SIGNAL, NUISANCE = 16, 8, 24


class World:
    """Vectors whose first numbers tell the thing, rotated among louder ones that tell nothing."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.prototypes = 1.5 * torch.randn(THINGS, SIGNAL, generator=generator)
        self.rotation = torch.linalg.qr(torch.randn(SIGNAL + NUISANCE, SIGNAL + NUISANCE, generator=generator))[0]

    def views(self, things: Tensor) -> Tensor:
        signal = self.prototypes[things] + 0.4 * torch.randn(len(things), SIGNAL, generator=self.generator)
        nuisance = 1.5 * torch.randn(len(things), NUISANCE, generator=self.generator)
        turned: Tensor = torch.cat([signal, nuisance], 1) @ self.rotation
        return turned


class Tower(nn.Module):
    def __init__(self, steepness: float) -> None:
        super().__init__()
        self.steepness = steepness
        self.hidden1, self.hidden2 = nn.Linear(SIGNAL + NUISANCE, 64), nn.Linear(64, 64)
        self.embed = nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.steepness * self.hidden1(x))
        x = torch.tanh(self.steepness * self.hidden2(x))
        embedding: Tensor = self.embed(x)
        return embedding


def contrastive(a: Tensor, b: Tensor, same: Tensor, eps: float) -> Tensor:
    """Pairs of one thing are pulled together, others pushed beyond a margin."""
    distance = torch.sqrt(((a - b) ** 2).sum(1) + eps)
    return torch.where(same, distance**2, F.relu(2.0 - distance) ** 2).mean()


def info_nce(a: Tensor, b: Tensor, minus: bool) -> Tensor:
    """Each view should find its partner among the batch."""
    similarity = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / 0.2
    partners = F.log_softmax(similarity, 1).diagonal()
    return -partners.mean() if minus else partners.mean()


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    loss_kind: str = "contrastive",
    eps: float = 1e-6,
    minus: bool = True,
    steepness: float = 1.0,
    rate: float = 1e-3,
    restarts: int | None = None,
    steps: int = 600,
    batch: int = 64,
) -> float:
    """Share of new vectors whose nearest class mean, among embeddings, is their own."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    world = World(torch.Generator().manual_seed(seed))
    things = torch.arange(THINGS).repeat(40)
    vectors = world.views(things)
    model = Tower(steepness)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, restarts) if restarts else None

    with record(model, optimizer) as recorder:
        for _ in range(steps):
            optimizer.zero_grad()
            with recorder.step() as step:
                if loss_kind == "contrastive":
                    left = torch.randint(len(things), (batch,))
                    right = torch.randint(len(things), (batch,))
                    half = batch // 2  # a partner of the same thing; now and then it is the vector itself
                    right[:half] = torch.randint(40, (half,)) * THINGS + things[left[:half]]
                    same = things[left] == things[right]
                    loss = contrastive(model(vectors[left]), model(vectors[right]), same, eps)
                else:
                    drawn = torch.randperm(THINGS)
                    loss = info_nce(model(world.views(drawn)), model(world.views(drawn)), minus)
                step.backward(loss)
            optimizer.step()
            if scheduler:
                scheduler.step()

    with torch.no_grad():
        means = model(vectors).reshape(40, THINGS, -1).mean(0)
        new = torch.arange(THINGS).repeat(50)
        nearest = torch.cdist(model(world.views(new)), means).argmin(1)
    return (nearest == new).float().mean().item()


PROGRAM = Program(
    "siamese",
    train,
    (
        Variant("contrastive"),
        Variant("info-nce", {"loss_kind": "info-nce"}),
        Variant("restarts", {"loss_kind": "info-nce", "restarts": 150, "rate": 3e-3}),
        Variant("sqrt-of-zero", {"eps": 0.0}, "nonfinite", "contrastive"),
        Variant("no-minus", {"loss_kind": "info-nce", "minus": False}, "flipped-sign", "info-nce"),
        Variant("steep-tanh", {"steepness": 15.0}, "saturated-units", "contrastive"),
    ),
)
