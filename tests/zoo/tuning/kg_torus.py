"""Links of a knowledge graph: places on a torus and the directions between them. Contrastive, negatives in the batch.

A relation rotates its head in complex planes; the result is compared with tails, all normalised. RMSprop or Adagrad.
The outcome is the mean reciprocal rank of the right tail for links held out.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, relu
from torch.optim import lr_scheduler
from zoo.program import Program, Record, Variant

WIDE, HIGH = 9, 8
DIRECTIONS = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (2, 0), (0, 2), (1, -1)]


def graph() -> tuple[Tensor, Tensor]:
    """Links (n, 3), of head, relation and tail, for training, and those held out."""
    links = [
        (x * HIGH + y, r, (x + right) % WIDE * HIGH + (y + up) % HIGH)
        for (x, y), (r, (right, up)) in itertools.product(
            itertools.product(range(WIDE), range(HIGH)), enumerate(DIRECTIONS)
        )
    ]
    mixed = torch.tensor(links)[torch.randperm(len(links), generator=torch.Generator().manual_seed(3))]
    return mixed[:-110], mixed[-110:]


class Links(nn.Module):
    def __init__(self, width: int, stops_tails: bool, over: int, learned: bool, temperature: float) -> None:
        super().__init__()
        self.place = nn.Embedding(WIDE * HIGH, width)
        self.direction = nn.Embedding(len(DIRECTIONS), width // 2)  # angles
        self.stops_tails, self.over = stops_tails, over
        log_scale = torch.tensor(1 / temperature).log()
        self.log_scale = nn.Parameter(log_scale) if learned else log_scale

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        real, imaginary = self.place(heads).chunk(2, dim=-1)
        angle = self.direction(relations)
        turned = [real * angle.cos() - imaginary * angle.sin(), real * angle.sin() + imaginary * angle.cos()]
        rotated = torch.cat(turned, dim=-1)
        return normalize(rotated, dim=self.over)

    def keys(self, tails: Tensor) -> Tensor:
        found = normalize(self.place(tails), dim=self.over)
        return found.detach() if self.stops_tails else found

    def forward(self, heads: Tensor, relations: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        return self.queries(heads, relations), self.keys(tails)


def info_nce(query: Tensor, key: Tensor, tails: Tensor, scale: Tensor) -> Tensor:
    """Both ways. Another link with the same tail is no negative."""
    scores = scale * query @ key.T
    same = (tails[:, None] == tails[None, :]) & ~torch.eye(len(tails), dtype=torch.bool)
    scores = scores.masked_fill(same, -1e4)
    right = torch.arange(len(tails))
    return 0.5 * (cross_entropy(scores, right) + cross_entropy(scores.T, right))


def triplet(query: Tensor, key: Tensor, tails: Tensor, margin: float, as_distance: bool) -> Tensor:
    """Cosine similarity of the right tail against those of the rest of the batch."""
    scores = query @ key.T
    gap = scores - scores.diagonal()[:, None]
    if as_distance:  # the function was written for distances
        gap = -gap
    others = tails[:, None] != tails[None, :]
    return relu(margin + gap)[others].mean()


@torch.no_grad()
def reciprocal_rank(net: Links, links: Tensor) -> float:
    net.eval()
    query = net.queries(links[:, 0], links[:, 1])
    scores = query @ net.keys(torch.arange(WIDE * HIGH)).T
    rank = (scores > scores.gather(1, links[:, 2:])).sum(dim=1) + 1
    rank = torch.where(scores.std(dim=1) < 1e-7, WIDE * HIGH // 2, rank)  # all alike
    net.train()
    return float((1 / rank).mean())


def train(
    record: Record,
    seed: int,
    algorithm: str = "rmsprop",
    lr: float = 0.02,
    lr_decay: float = 0.0,
    schedule: str = "none",
    loss: str = "info-nce",
    temperature: float = 0.2,
    learned: bool = False,
    margin: float = 0.3,
    width: int = 24,
    batch: int = 64,
    steps: int = 240,
    over: int = -1,
    stops_tails: bool = False,
    forgets: str = "nothing",
    scale_rate: float | None = None,
    corrupted: float = 0.0,
    sorts_column: bool = False,
    mode: Literal["train", "overfit-batch"] = "train",
) -> float:
    torch.manual_seed(seed)
    links, held_out = graph()
    if sorts_column:  # a join that kept the order of one table only
        links = torch.cat([links[:, :2], links[:, 2:].sort(dim=0).values], dim=1)
    wrong = torch.rand(len(links)) < corrupted
    links[wrong, 2] = torch.randint(WIDE * HIGH, (int(wrong.sum()),))
    if mode == "overfit-batch":
        links = held_out = links[:batch]

    net = Links(width, stops_tails, over, learned, temperature)
    trained = [p for n, p in net.named_parameters() if not n.startswith(forgets) and n != "log_scale"]
    groups: list[dict[str, Any]] = [{"params": trained}]
    if isinstance(net.log_scale, nn.Parameter):
        groups.append({"params": [net.log_scale], "lr": scale_rate or lr})
    optimizer: torch.optim.Optimizer
    if algorithm == "adagrad":
        optimizer = torch.optim.Adagrad(groups, lr=lr, lr_decay=lr_decay)
    else:
        optimizer = torch.optim.RMSprop(groups, lr=lr, alpha=0.98)
    scheduler: lr_scheduler.LRScheduler | None = None
    if schedule == "restarts":
        scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=steps // 4)
    elif schedule.startswith("decay-"):
        scheduler = lr_scheduler.ExponentialLR(optimizer, float(schedule.removeprefix("decay-")))

    with record(net, optimizer, mode=mode) as recorder:
        queue: list[Tensor] = []
        for i in range(steps):
            if not queue:
                queue = [part for part in links[torch.randperm(len(links))].split(batch) if len(part) > 1]
            heads, relations, tails = queue.pop().unbind(dim=1)
            optimizer.zero_grad()
            with recorder.step() as step:
                query, key = net(heads, relations, tails)
                if loss == "info-nce":
                    value = info_nce(query, key, tails, net.log_scale.exp())
                else:
                    value = triplet(query, key, tails, margin, as_distance=loss == "triplet-as-distance")
                step.backward(value)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            if i % 80 == 79:
                recorder.log("valid", mean_reciprocal_rank=reciprocal_rank(net, held_out))
    return reciprocal_rank(net, held_out)


ONE = {"mode": "overfit-batch", "batch": 32, "steps": 160}

PROGRAM = Program(
    "kg-torus",
    train,
    (
        Variant("info-nce"),
        Variant("adagrad-learned-temperature", {"algorithm": "adagrad", "lr": 0.2, "learned": True}),
        Variant("triplet-converged", {"loss": "triplet", "steps": 400}),
        Variant("restarts", {"schedule": "restarts", "lr": 0.04}),
        Variant("batch-of-256", {"batch": 256, "steps": 180}),
        Variant("one-batch", ONE),
        Variant("adagrad", {"algorithm": "adagrad", "lr": 0.2}),
        Variant("similarity-as-distance", {"loss": "triplet-as-distance"}, "flipped-sign", "triplet-converged"),
        Variant("normalised-over-batch", {"over": 0}, "wrong-dimension", "info-nce"),
        Variant("directions-not-in-optimizer", {"forgets": "direction"}, "wiring", "info-nce"),
        Variant("batch-of-two", {"batch": 2}, "batch-too-small", "info-nce"),
        Variant(
            "weight-decay-as-lr-decay", {"algorithm": "adagrad", "lr": 0.2, "lr_decay": 0.5}, "rate-decayed", "adagrad"
        ),
        Variant("decays-by-0.97-each-step", {"schedule": "decay-0.97"}, "rate-decayed", "info-nce"),
        Variant("tails-sorted", {"sorts_column": True}, "wrong-labels", "info-nce"),
        Variant(
            "temperature-x1000",
            {"algorithm": "adagrad", "lr": 0.2, "learned": True, "scale_rate": 200.0},
            "update-outlier",
            "adagrad-learned-temperature",
        ),
        Variant(
            "one-batch-join-broken", ONE | {"over": 0}, "does-not-fit-one-batch", "one-batch", also=("wrong-dimension",)
        ),
    ),
)
