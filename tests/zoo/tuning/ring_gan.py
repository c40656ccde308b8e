"""Points on a ring, a generative adversarial network: two optimizers take turns, and neither loss should fall."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


def ring(count: int) -> Tensor:
    angle = 2 * torch.pi * torch.rand(count)
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(count, 2)


def energy_distance(a: Tensor, b: Tensor) -> float:
    return float(2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean())


def train(
    record: Record,
    seed: int,
    rate_g: float = 1e-3,
    rate_d: float = 1e-3,
    steps: int = 400,
    critic_steps: int = 1,
    loss: str = "logistic",
    detached: bool = False,
    sign: float = 1.0,
) -> float:
    torch.manual_seed(seed)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    opt_g = torch.optim.Adam(generator.parameters(), rate_g, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), rate_d, betas=(0.5, 0.99))

    def critic_loss(real: Tensor, fake: Tensor) -> Tensor:
        if loss == "hinge":
            return F.relu(1 - real).mean() + F.relu(1 + fake).mean()
        if loss == "squares":
            return (real - 1).square().mean() + fake.square().mean()
        return F.softplus(-real).mean() + F.softplus(fake).mean()

    def generator_loss(fake: Tensor) -> Tensor:
        if loss == "hinge":
            return -fake.mean()
        return (fake - 1).square().mean() if loss == "squares" else F.softplus(-fake).mean()

    both = nn.ModuleDict({"generator": generator, "critic": critic})
    with record(both, [opt_g, opt_d]) as recorder:
        for _ in range(steps):
            for _ in range(critic_steps):
                fake = generator(torch.randn(64, 4)).detach()
                opt_d.zero_grad()
                with recorder.step() as step:
                    step.backward(critic_loss(critic(ring(64)), critic(fake)))
                opt_d.step()
            opt_g.zero_grad()
            with recorder.step() as step:
                fake = generator(torch.randn(64, 4))
                if detached:
                    fake = fake.detach()
                step.backward(sign * generator_loss(critic(fake)))
            opt_g.step()

    with torch.no_grad():
        return -energy_distance(generator(torch.randn(1000, 4)), ring(1000))


PROGRAM = Program(
    "ring-gan",
    train,
    (
        Variant("logistic"),
        Variant("hinge", {"loss": "hinge", "critic_steps": 2}),
        Variant("squares", {"loss": "squares"}),
        Variant("detached", {"detached": True}, "wiring", "logistic"),
        Variant("generator-rate-x300", {"rate_g": 0.3}, "rate-too-large", "logistic"),
        Variant("generator-rate-over-1000", {"rate_g": 1e-6}, "rate-too-small", "logistic"),
    ),
)
