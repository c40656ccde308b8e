"""A Wasserstein pair: the generator should match a cloud of points on a bent sheet in six dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from zoo.program import Program, Variant

SPACE, LATENT = 6, 4


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, SPACE)
        )
        self.critic = nn.Sequential(nn.Linear(SPACE, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2))
        self.critic.append(nn.Linear(32, 1))


def real(count: int, generator: torch.Generator) -> Tensor:
    """Points of a two-dimensional sheet, bent, off the origin, with little noise."""
    a, b = torch.randn(2, count, generator=generator)
    sheet = torch.stack([a, b, torch.sin(a), a * b / 2, b + 1, a - b - 1], 1)
    return sheet + 0.1 * torch.randn(count, SPACE, generator=generator)


def sliced_distance(x: Tensor, y: Tensor, generator: torch.Generator) -> float:
    """Mean distance of the sorted projections on 64 random directions."""
    directions = nn.functional.normalize(torch.randn(SPACE, 64, generator=generator), dim=0)
    return ((x @ directions).sort(0).values - (y @ directions).sort(0).values).abs().mean().item()


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    rate: float = 1e-3,
    rounds: int = 250,
    critic_steps: int = 4,
    limit: float = 0.1,
    detached: bool = False,
) -> float:
    """Minus the sliced distance between 1000 made points and 1000 real ones."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    source = torch.Generator().manual_seed(seed)
    pair = Pair()
    made_by = torch.optim.RMSprop(pair.generator.parameters(), lr=rate)
    judged_by = torch.optim.RMSprop(pair.critic.parameters(), lr=rate)

    with record(pair, [judged_by, made_by]) as recorder:
        for _ in range(rounds):
            for _ in range(critic_steps):
                judged_by.zero_grad()
                with recorder.step() as step:
                    fake = pair.generator(torch.randn(64, LATENT)).detach()
                    gap = pair.critic(fake).mean() - pair.critic(real(64, source)).mean()
                    step.backward(gap)
                judged_by.step()
                with torch.no_grad():
                    for parameter in pair.critic.parameters():
                        parameter.clamp_(-limit, limit)
            made_by.zero_grad()
            with recorder.step() as step:
                fake = pair.generator(torch.randn(64, LATENT))
                if detached:
                    fake = fake.detach()  # copied from the critic's half of the loop
                step.backward(-pair.critic(fake).mean())
            made_by.step()

    with torch.no_grad():
        made = pair.generator(torch.randn(1000, LATENT))
    return -sliced_distance(made, real(1000, source), source)


PROGRAM = Program(
    "wgan",
    train,
    (
        Variant("clamped"),
        Variant("generator-detached", {"detached": True}, "wiring", "clamped"),
    ),
)
