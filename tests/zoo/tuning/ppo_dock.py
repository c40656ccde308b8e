"""A craft that docks on a line, in numpy: PPO with a shared trunk, or with an actor and a critic of their own.

Sixteen craft fly side by side; each round of flight is learned from in a few epochs of minibatches. The outcome is the
mean return of the greedy policy in fresh flights. Logged are returns, nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

FLEET = 16
FLIGHT = 32  # steps before every craft starts anew
THRUST = np.array([-1.0, 0.0, 1.0])


class Dock:
    """Position, speed and a wind that can be felt; reward for being near the dock and slow."""

    def __init__(self, seed: int, craft: int = FLEET) -> None:
        self.draw, self.craft = np.random.default_rng(seed), craft

    def reset(self) -> np.ndarray:
        self.x, self.v = self.draw.uniform(-2, 2, self.craft), self.draw.normal(0, 0.3, self.craft)
        self.wind = self.draw.normal(0, 0.25, self.craft)
        return self.seen()

    def seen(self) -> np.ndarray:
        return np.stack([self.x, self.v, self.wind], axis=1)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.v = 0.95 * self.v + 0.2 * (THRUST[action] + self.wind)
        self.x = np.clip(self.x + 0.3 * self.v, -4, 4)
        return self.seen(), 1.0 - np.abs(self.x) - 0.3 * np.abs(self.v) + 1.0 * (np.abs(self.x) < 0.15)


def stack(width: int, outputs: int, activation: str, last: float, gain: float) -> nn.Sequential:
    made = {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]
    layers = nn.Sequential(nn.Linear(3, width), made(), nn.Linear(width, width), made(), nn.Linear(width, outputs))
    for i, layer in enumerate(layers[::2]):
        nn.init.orthogonal_(layer.weight, last if i == 2 else gain)  # type: ignore[arg-type]
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layers


class Shared(nn.Module):
    """One trunk, two heads."""

    def __init__(self, width: int, activation: str, gain: float, bias: float) -> None:
        super().__init__()
        self.trunk = stack(width, width, activation, gain, gain)
        self.trunk.append(nn.Tanh() if activation == "tanh" else nn.ReLU())
        for layer in self.trunk[:4:2]:
            nn.init.constant_(layer.bias, bias)  # type: ignore[arg-type]
        self.policy, self.value = nn.Linear(width, 3), nn.Linear(width, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        h = self.trunk(seen)
        return self.policy(h), self.value(h)


class Apart(nn.Module):
    """An actor and a critic."""

    def __init__(self, width: int, activation: str, gain: float) -> None:
        super().__init__()
        self.actor, self.critic = stack(width, 3, activation, 0.01, gain), stack(width, 1, activation, 1.0, gain)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(seen), self.critic(seen)


@dataclass
class Flight:
    """What was seen, done and earned: FLIGHT * FLEET rows."""

    seen: Tensor
    action: Tensor
    logp: Tensor
    advantage: Tensor
    returns: Tensor
    total: float


def fly(net: nn.Module, env: Dock, unit: float, reward_unit: float, gamma: float, lam: float) -> Flight:
    seen, actions, logps, values, rewards = [], [], [], [], []
    state = env.reset()
    for _ in range(FLIGHT):
        observed = torch.tensor(state * unit, dtype=torch.float32)
        with torch.no_grad():
            logits, value = net(observed)
        chance = torch.distributions.Categorical(logits=logits)
        action = chance.sample()
        state, reward = env.step(action.numpy())
        seen.append(observed)
        actions.append(action)
        logps.append(chance.log_prob(action))
        values.append(value.squeeze(1))
        rewards.append(torch.tensor(reward * reward_unit, dtype=torch.float32))
    values.append(torch.zeros(FLEET))
    advantages, running = [], torch.zeros(FLEET)
    for t in reversed(range(FLIGHT)):
        running = rewards[t] + gamma * values[t + 1] - values[t] + gamma * lam * running
        advantages.insert(0, running)
    advantage = torch.stack(advantages)
    returns = advantage + torch.stack(values[:-1])
    total = float(torch.stack(rewards).sum(dim=0).mean()) / reward_unit
    return Flight(torch.cat(seen), torch.cat(actions), torch.cat(logps), advantage.flatten(), returns.flatten(), total)


@torch.no_grad()
def greedy(net: nn.Module, unit: float) -> float:
    env = Dock(12345, 200)
    state, total = env.reset(), 0.0
    for _ in range(FLIGHT):
        logits, _ = net(torch.tensor(state * unit, dtype=torch.float32).nan_to_num())
        state, reward = env.step(logits.argmax(dim=1).numpy())
        total += float(reward.mean())
    return total


def train(
    record: Record,
    seed: int,
    lr: float = 4e-3,
    anneal: bool = True,
    rounds: int = 25,
    passes: int = 3,
    minibatch: int = 128,
    width: int = 32,
    activation: str = "tanh",
    apart: bool = False,
    gain: float = 1.4,
    bias: float = 0.0,
    clip: float = 0.2,
    entropy: float = 0.01,
    value_weight: float = 0.5,
    max_norm: float = 0.5,
    unit: float = 1.0,
    reward_unit: float = 0.1,
    normalised: bool = True,
    ascends: bool = True,
    squeezes: bool = True,
    clears: str = "each-minibatch",
    actor_optimized: bool = True,
    misaligned: bool = False,
) -> float:
    torch.manual_seed(seed)
    env = Dock(seed)
    net = Apart(width, activation, gain) if apart else Shared(width, activation, gain, bias)
    if isinstance(net, Apart):
        actor = net.actor if actor_optimized else net.critic
        optimizers = [torch.optim.Adam(actor.parameters(), lr), torch.optim.Adam(net.critic.parameters(), lr)]
    else:
        optimizers = [torch.optim.Adam(net.parameters(), lr, eps=1e-5)]

    with record(net, optimizers if len(optimizers) > 1 else optimizers[0]) as recorder:
        for number in range(rounds):
            if anneal:
                for optimizer in optimizers:
                    optimizer.param_groups[0]["lr"] = lr * (1 - number / rounds)
            flight = fly(net, env, unit, reward_unit, 0.97, 0.95)
            recorder.log("train", episode_return=flight.total)
            for _ in range(passes):
                if clears == "each-pass":
                    for optimizer in optimizers:
                        optimizer.zero_grad()
                for rows in torch.randperm(len(flight.seen)).split(minibatch):
                    others = rows[torch.randperm(len(rows))] if misaligned else rows
                    advantage = flight.advantage[others]
                    if normalised:
                        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                    if clears == "each-minibatch":
                        for optimizer in optimizers:
                            optimizer.zero_grad()
                    with recorder.step() as step:
                        logits, value = net(flight.seen[rows])
                        chance = torch.distributions.Categorical(logits=logits, validate_args=False)
                        ratio = (chance.log_prob(flight.action[rows]) - flight.logp[rows]).exp()
                        gained = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
                        wrong = ((value.squeeze(1) if squeezes else value) - flight.returns[rows]).square().mean()
                        loss = (-gained if ascends else gained) + value_weight * wrong
                        step.backward(loss - entropy * chance.entropy().mean())
                    nn.utils.clip_grad_norm_(net.parameters(), max_norm)
                    for optimizer in optimizers:
                        optimizer.step()
    reached = greedy(net, unit)
    return reached if all(bool(p.isfinite().all()) for p in net.parameters()) else math.nan


PROGRAM = Program(
    "ppo-dock",
    train,
    (
        Variant("shared"),
        Variant("actor-and-critic", {"apart": True}),
        Variant("relu-wide", {"activation": "relu", "width": 96}),
        Variant("one-big-batch", {"minibatch": 512, "passes": 10, "lr": 6e-3}),
        Variant("no-entropy-tiny-clip", {"entropy": 0.0, "max_norm": 0.05}),
        Variant("converged-continued", {"rounds": 40, "anneal": False, "lr": 2e-3}),
        Variant("descends-the-gain", {"ascends": False}, "flipped-sign", "shared"),
        Variant("rewards-x1000", {"reward_unit": 100.0}, "unnormalised-targets", "shared"),
        Variant("millimetres", {"unit": 1e5}, "saturated-units", "shared", also=("unnormalised-inputs",)),
        Variant("never-clears", {"clears": "never", "max_norm": 100.0}, "no-zero-grad", "shared"),
        Variant("rate-x30", {"lr": 0.12}, "rate-too-large", "shared"),
        Variant("rate-over-100", {"lr": 4e-5}, "rate-too-small", "shared"),
        Variant("critic-optimized-twice", {"apart": True, "actor_optimized": False}, "wiring", "actor-and-critic"),
        Variant("bias-minus-six", {"activation": "relu", "width": 96, "bias": -6.0}, "dead-units", "relu-wide"),
        Variant("values-against-rows", {"squeezes": False}, "silent-broadcast", "shared"),
        Variant("advantages-of-other-rows", {"misaligned": True}, "wrong-labels", "shared"),
    ),
)
