"""A contextual bandit, a policy learns by REINFORCE. The loss is a surrogate: its value says nothing, its slope all."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from zoo.program import Program, Record, Variant

ARMS = 5


def rewards(context: Tensor, arms: Tensor) -> Tensor:
    """Each arm likes another direction of the context; what it pays is noisy."""
    angles = torch.arange(ARMS) * 2 * torch.pi / ARMS
    liked = torch.stack([angles.cos(), angles.sin()], dim=1)
    return (context[:, :2] * liked[arms]).sum(dim=1) + 0.3 * torch.randn(len(arms))


def train(
    record: Record,
    seed: int,
    lr: float = 3e-3,
    baseline: bool = True,
    entropy: float = 0.01,
    sign: float = 1.0,
    episodes: int = 64,
    steps: int = 400,
    clip: float | None = None,
    shuffled: bool = False,
) -> float:
    torch.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, ARMS))
    optimizer = torch.optim.Adam(policy.parameters(), lr=lr)
    average = 0.0

    with record(policy, optimizer) as recorder:
        for _ in range(steps):
            context = torch.randn(episodes, 6)
            with recorder.step() as step:
                choice = Categorical(logits=policy(context))
                arms = choice.sample()
                reward = rewards(context, arms)
                if shuffled:
                    reward = reward[torch.randperm(episodes)]
                advantage = reward - average if baseline else reward
                average = 0.9 * average + 0.1 * reward.mean().item()
                loss = -sign * (advantage * choice.log_prob(arms)).mean() - entropy * choice.entropy().mean()
                optimizer.zero_grad()
                step.backward(loss)
            if clip is not None:
                nn.utils.clip_grad_norm_(policy.parameters(), clip)
            optimizer.step()
            recorder.log("train", reward=reward.mean())

    context = torch.randn(2000, 6)
    with torch.no_grad():
        return float(rewards(context, policy(context).argmax(dim=1)).mean())


PROGRAM = Program(
    "bandit-policy",
    train,
    (
        Variant("plain"),
        Variant("no-baseline", {"baseline": False}),
        Variant("clipped-every-step", {"clip": 0.05}),
        Variant("much-entropy", {"entropy": 0.1}),
        Variant("shuns-rewards", {"sign": -1.0}, "flipped-sign", "plain"),
        Variant("rewards-shuffled", {"shuffled": True}, "wrong-labels", "plain"),
        Variant("rate-x300", {"lr": 1.0}, "rate-too-large", "plain"),
        Variant("rate-over-300", {"lr": 1e-5}, "rate-too-small", "plain"),
        Variant("entropy-x1000", {"entropy": 10.0}, "too-much-regularisation", "plain"),
    ),
)
