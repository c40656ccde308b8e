"""An unstable pole, deep Q-learning: replay, a target network, epsilon-greedy, Huber or squared errors, Adam."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

HORIZON = 40
TORQUES = torch.tensor([-1.0, 0.0, 1.0])


class Poles:
    """Many poles at once; each falls over beyond an angle of one, and starts anew."""

    def __init__(self, count: int, generator: torch.Generator | None = None) -> None:
        self.generator = generator
        self.states = self.fresh(count)

    def fresh(self, count: int) -> Tensor:
        return 0.6 * (torch.rand(count, 2, generator=self.generator) - 0.5)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards, states after the step, and whether the poles fell."""
        angle, speed = self.states.unbind(dim=1)
        speed = speed + 0.15 * (1.5 * angle + TORQUES[actions])
        angle = angle + 0.15 * speed
        after = torch.stack([angle, speed], dim=1)
        fell = angle.abs() > 1
        self.states = torch.where(fell.unsqueeze(1), self.fresh(len(after)), after)
        return 1 - angle.abs() - fell.float(), after, fell


class QNet(nn.Module):
    def __init__(self, dueling: bool, init: str) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.advantage = nn.Linear(32, 3)
        self.value = nn.Linear(32, 1) if dueling else None
        if init == "zeros":
            for parameter in self.parameters():
                nn.init.zeros_(parameter)

    def forward(self, states: Tensor) -> Tensor:
        features = self.trunk(states)
        q = self.advantage(features)
        if self.value is not None:
            q = self.value(features) + q - q.mean(dim=1, keepdim=True)
        return q


@dataclass
class Replay:
    columns: list[list[Tensor]] = field(default_factory=list)

    def push(self, *columns: Tensor) -> None:
        self.columns.append(list(columns))
        del self.columns[:-250]

    def sample(self, size: int) -> list[Tensor]:
        moments = torch.randint(len(self.columns), (size,))
        places = torch.randint(len(self.columns[0][0]), (size,))
        chosen = [self.columns[m] for m in moments.tolist()]
        return [
            torch.stack([each[i][p] for each, p in zip(chosen, places.tolist(), strict=True)])
            for i in range(len(chosen[0]))
        ]


@torch.no_grad()
def greedy_return(model: QNet) -> float:
    poles = Poles(200, torch.Generator().manual_seed(5))
    alive, total = torch.ones(200), torch.zeros(200)
    for _ in range(HORIZON):
        rewards, _, fell = poles.step(model(poles.states).argmax(dim=1))
        total += alive * rewards
        alive *= 1 - fell.float()
    return float(total.mean())


def train(
    record: Record,
    seed: int,
    lr: float = 2e-3,
    updates: int = 350,
    batch: int = 64,
    gamma: float = 0.95,
    loss: str = "huber",
    double: bool = False,
    dueling: bool = False,
    target: str = "copied",
    n_step: int = 1,
    discounts: str = "power",
    reward_scale: float = 1.0,
    gathers: str = "squeezed",
    stores: str = "right",
    init: str = "default",
    optimizer_of: str = "model",
) -> float:
    torch.manual_seed(seed)
    model = QNet(dueling, init)
    frozen = copy.deepcopy(model).requires_grad_(False)
    held = copy.deepcopy(model) if optimizer_of == "a-copy" else model
    optimizer = torch.optim.Adam(held.parameters(), lr=lr)
    loss_fn: nn.Module = nn.SmoothL1Loss() if loss == "huber" else nn.MSELoss()
    poles, replay = Poles(16), Replay()
    recent: list[tuple[Tensor, ...]] = []
    last_actions = torch.zeros(16, dtype=torch.long)
    rewarded = 0.0

    with record(model, optimizer, loss_fn, hparams={"gamma": gamma, "lr": lr}) as recorder:
        for update in range(-40, updates):  # the first moments fill the replay
            epsilon = max(0.05, 1 - update / (0.5 * updates))
            with torch.no_grad():
                best = model(poles.states).argmax(dim=1)
            actions = torch.where(torch.rand(16) < epsilon, torch.randint(3, (16,)), best)
            before = poles.states
            rewards, after, fell = poles.step(actions)
            rewarded += float(rewards.mean())
            kept = last_actions if stores == "last-action" else actions
            last_actions = actions
            recent.append((before, kept, reward_scale * rewards, fell))
            if len(recent) >= n_step:
                returns, ended = torch.zeros(16), torch.zeros(16, dtype=torch.bool)
                for k, (_, _, reward, down) in enumerate(recent[-n_step:]):
                    returns = returns + gamma**k * reward * (~ended).float()
                    ended = ended | down
                start = recent[-n_step]
                replay.push(start[0], start[1], returns, ended, after)
            if update < 0:
                continue

            states, chosen, returns, ended, ahead = replay.sample(batch)
            factor = gamma**n_step if discounts == "power" else gamma * n_step
            with torch.no_grad():
                if double:
                    best_ahead = model(ahead).argmax(dim=1, keepdim=True)
                    q_ahead = frozen(ahead).gather(1, best_ahead).squeeze(1)
                else:
                    q_ahead = frozen(ahead).max(dim=1).values
                goals = returns + factor * q_ahead * (~ended).float()
            optimizer.zero_grad()
            with recorder.step() as step:
                q = model(states).gather(1, chosen.unsqueeze(1))
                if gathers == "squeezed":
                    q = q.squeeze(1)
                step.backward(loss_fn(q, goals))
            if loss == "clipped-mse":
                nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()

            with torch.no_grad():
                if target == "averaged":
                    for slow, fast in zip(frozen.parameters(), model.parameters(), strict=True):
                        slow.lerp_(fast, 0.05)
                elif update % 20 == 19:
                    frozen.load_state_dict(model.state_dict())
            if update % 20 == 19:
                recorder.log("train", reward=rewarded / 20)
                rewarded = 0.0
            if update % 100 == 99:
                recorder.log("test", episode_return=greedy_return(model))
    return greedy_return(model)


PROGRAM = Program(
    "pole-dqn",
    train,
    (
        Variant("dqn"),
        Variant("double", {"double": True}),
        Variant("dueling-averaged", {"dueling": True, "target": "averaged"}),
        Variant("two-steps", {"n_step": 2, "loss": "mse"}),
        Variant("squared-errors", {"loss": "clipped-mse"}),
        Variant("gamma-0.99", {"gamma": 0.99, "target": "averaged"}),
        Variant("td-errors-broadcast", {"gathers": "column"}, "silent-broadcast", "dqn"),
        Variant(
            "rewards-x1000", {"loss": "clipped-mse", "reward_scale": 1000.0}, "unnormalised-targets", "squared-errors"
        ),
        Variant("rate-x300", {"lr": 0.6}, "rate-too-large", "dqn"),
        Variant("rate-over-300", {"lr": 2e-3 / 300}, "rate-too-small", "dqn"),
        Variant("action-before", {"stores": "last-action"}, "wrong-labels", "dqn"),
        Variant("n-times-gamma", {"n_step": 2, "loss": "mse", "discounts": "product"}, "diverged", "two-steps"),
        Variant("all-zero", {"init": "zeros"}, "init-zero-or-symmetric", "dqn"),
        Variant("optimizer-of-a-copy", {"optimizer_of": "a-copy"}, "wiring", "dqn"),
    ),
)
