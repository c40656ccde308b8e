"""An actor and a critic learn to walk to the corner of a small grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional as F  # noqa: N812
from zoo.program import Program, Variant

SIDE, HORIZON, WALKERS = 5, 16, 16
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class ActorCritic(nn.Module):
    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(SIDE * SIDE, hidden), nn.Tanh(), nn.Linear(hidden, 4))
        self.critic = nn.Sequential(nn.Linear(SIDE * SIDE, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(state), self.critic(state).squeeze(-1)


def observe(places: Tensor) -> Tensor:
    return F.one_hot(places[:, 0] * SIDE + places[:, 1], SIDE * SIDE).float()


def walk(model: nn.Module) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """One episode of all walkers: log-probabilities, values, entropies, rewards, alive; each (time, walkers)."""
    places = torch.randint(SIDE, (WALKERS, 2))
    places[(places == SIDE - 1).all(1)] = 0
    alive = torch.ones(WALKERS)
    rows: list[tuple[Tensor, ...]] = []
    for _ in range(HORIZON):
        logits, value = model(observe(places))
        policy = Categorical(logits=logits, validate_args=False)
        action = policy.sample()
        places = (places + MOVES[action]).clamp(0, SIDE - 1)
        there = (places == SIDE - 1).all(1).float()
        reward = alive * (there - 0.04)
        rows.append((policy.log_prob(action), value, policy.entropy(), reward, alive))
        alive = alive * (1 - there)
    first, second, third, fourth, fifth = (torch.stack(column) for column in zip(*rows, strict=True))
    return first, second, third, fourth, fifth


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    rate: float = 1e-2,
    updates: int = 150,
    gamma: float = 0.97,
    critic_only: bool = False,
    baseline: bool = True,
    entropy_weight: float = 0.01,
) -> float:
    """Mean return of 320 episodes walked after the training."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = ActorCritic()
    trained: nn.Module = model.critic if critic_only else model
    optimizer = torch.optim.Adam(trained.parameters(), lr=rate)
    with record(model, optimizer) as recorder:
        for update in range(updates):
            optimizer.zero_grad()
            with recorder.step() as step:
                log_probability, values, entropy, rewards, alive = walk(model)
                returns, ahead = torch.zeros_like(rewards), torch.zeros(WALKERS)
                for t in reversed(range(HORIZON)):
                    ahead = rewards[t] + gamma * ahead
                    returns[t] = ahead
                advantage = returns - values.detach() if baseline else returns
                actor_loss = -(alive * log_probability * advantage).sum() / alive.sum()
                critic_loss = (alive * (returns - values) ** 2).sum() / alive.sum()
                bonus = (alive * entropy).sum() / alive.sum()
                loss = actor_loss + 0.5 * critic_loss - entropy_weight * bonus
                step.backward(loss)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if update % 10 == 0:
                recorder.log("train", episode_return=rewards.sum(0).mean())
    with torch.no_grad():
        return torch.stack([walk(model)[3].sum(0).mean() for _ in range(20)]).mean().item()


PROGRAM = Program(
    "gridworld",
    train,
    (
        Variant("actor-critic"),
        Variant("long", {"updates": 250}),
        Variant("reinforce", {"baseline": False, "rate": 2e-2}),
        Variant("actor-forgotten", {"critic_only": True}, "wiring", "actor-critic"),
        Variant("rate-x30", {"rate": 0.3}, "rate-too-large", "actor-critic"),
    ),
)
