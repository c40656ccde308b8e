"""What a shop's visitor clicks next: a GRU over padded sessions of items. Adam, one metric an epoch, no loss logged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from zoo.program import Program, Record, Variant

ITEMS, PAD, UNKNOWN = 40, 0, 41  # items are numbered from 1
HABITS, LONGEST = 3, 7


def click_log(visitors: int, seed: int) -> list[list[int]]:
    """Sessions. Each visitor has one of three habits, which says where an item leads to, and shows in the past."""
    dice = random.Random(seed)
    shop = random.Random(7)
    leads_to = [shop.sample(range(1, ITEMS + 1), ITEMS) for _ in range(HABITS)]
    popularity = [1 / rank for rank in range(1, ITEMS + 1)]
    sessions = []
    for _ in range(visitors):
        habit = dice.choice(leads_to)
        session = [dice.randint(1, ITEMS)]
        for _ in range(dice.randint(4, LONGEST)):
            strays = dice.random() < 0.15
            session.append(dice.choices(range(1, ITEMS + 1), popularity)[0] if strays else habit[session[-1] - 1])
        sessions.append(session)
    return sessions


def padded(sessions: list[list[int]]) -> Tensor:
    longest = max(len(session) for session in sessions)
    return torch.tensor([session + [PAD] * (longest - len(session)) for session in sessions])


class NextItem(nn.Module):
    def __init__(self, batch_first: bool, bidirectional: bool, tied: bool, dropout: float) -> None:
        super().__init__()
        self.items = nn.Embedding(UNKNOWN + 1, 32, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(32, 32, batch_first=batch_first, bidirectional=bidirectional)
        self.scores = nn.Linear(64 if bidirectional else 32, UNKNOWN + 1)
        if tied:
            nn.init.normal_(self.items.weight, std=0.2)
            self.scores.weight = self.items.weight

    def forward(self, clicked: Tensor) -> Tensor:
        states, _ = self.gru(self.dropout(self.items(clicked)))
        scores: Tensor = self.scores(states)
        return scores


class Trainer:
    """Trains and evaluates; keeps what a checkpoint would."""

    def __init__(
        self,
        lr: float,
        optimizer: str,
        item_lr: float | None,
        batch: int,
        loss: str,
        smoothing: float,
        zero_grad: bool,
        known: bool,
        ordering: str,
        **architecture: Any,
    ) -> None:
        self.model = NextItem(**architecture)
        groups: list[dict[str, Any]] = [
            {"params": [p for name, p in self.model.named_parameters() if name != "items.weight"]},
            {"params": [self.model.items.weight], "lr": lr if item_lr is None else item_lr},
        ]
        make = torch.optim.Adagrad if optimizer == "adagrad" else torch.optim.Adam
        self.optimizer: torch.optim.Optimizer = make(groups, lr=lr)
        self.batch, self.loss, self.smoothing, self.zero_grad = batch, loss, smoothing, zero_grad
        self.known, self.ordering = known, ordering
        self.epoch = 0

    def lookup(self, items: Tensor) -> Tensor:
        """Item numbers of the catalogue. With `known` false, all are looked up in a catalogue of another type."""
        return items if self.known else items.where(items == PAD, UNKNOWN)

    def split(self, sessions: Tensor) -> tuple[Tensor, Tensor]:
        return self.lookup(sessions[:, :-1]), sessions[:, 1:]

    def loader(self, sessions: Tensor) -> Iterator[Tensor]:
        order = torch.randperm(len(sessions))
        if self.ordering == "short-first" and self.epoch < 4:
            short = (sessions[order] != PAD).sum(dim=1) <= 6 + self.epoch
            order = order[short].repeat(4)[: len(sessions)]
        for chosen in order.split(self.batch):
            yield sessions[chosen]

    def criterion(self, logits: Tensor, targets: Tensor) -> Tensor:
        if self.loss == "bpr":  # Bayesian personalised ranking against items drawn at random
            real = targets != PAD
            logits, targets = logits[real], targets[real]
            drawn = torch.randint(1, ITEMS + 1, (len(targets), 16))
            wins = logits.gather(1, targets[:, None]) - logits.gather(1, drawn)
            return -functional.logsigmoid(wins).mean()
        if self.loss == "probabilities":
            logits = logits.softmax(dim=-1)
        return functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=self.smoothing
        )

    def fit(self, recorder: Any, sessions: Tensor, valid: Tensor, until: int) -> float:
        hit_rate = 0.0
        while self.epoch < until:
            self.model.train()
            for batch in self.loader(sessions):
                clicked, following = self.split(batch)
                if self.zero_grad:
                    self.optimizer.zero_grad()
                with recorder.step() as step:
                    step.backward(self.criterion(self.model(clicked), following))
                self.optimizer.step()
            hit_rate = self.hit_rate(recorder, valid)
            recorder.log("valid", epoch=self.epoch, hit_rate=hit_rate)
            self.epoch += 1
        return hit_rate

    @torch.no_grad()
    def hit_rate(self, recorder: Any, sessions: Tensor) -> float:
        """How often the item that follows is the first of those proposed."""
        self.model.eval()
        clicked, following = self.split(sessions)
        with recorder.evaluate("valid"):
            proposed = self.model(clicked)[..., 1 : ITEMS + 1].argmax(dim=-1) + 1
        return float((proposed == following)[following != PAD].float().mean())


def train(
    record: Record,
    seed: int,
    lr: float = 0.005,
    optimizer: str = "adam",
    item_lr: float | None = None,
    batch: int = 32,
    epochs: int = 9,
    loss: str = "cross-entropy",
    smoothing: float = 0.0,
    zero_grad: bool = True,
    known: bool = True,
    ordering: str = "random",
    batch_first: bool = True,
    bidirectional: bool = False,
    tied: bool = False,
    dropout: float = 0.1,
    interrupted: int | None = None,
) -> float:
    torch.manual_seed(seed)
    sessions, valid = padded(click_log(900, 1)), padded(click_log(300, 2))
    trainer = Trainer(
        lr,
        optimizer,
        item_lr,
        batch,
        loss,
        smoothing,
        zero_grad,
        known,
        ordering,
        batch_first=batch_first,
        bidirectional=bidirectional,
        tied=tied,
        dropout=dropout,
    )
    if interrupted is not None:
        with record(trainer.model, trainer.optimizer) as recorder:
            trainer.fit(recorder, sessions, valid, until=interrupted)
    with record(trainer.model, trainer.optimizer, resume=interrupted is not None) as recorder:
        return trainer.fit(recorder, sessions, valid, until=epochs)


PROGRAM = Program(
    "session-gru",
    train,
    (
        Variant("plain"),
        Variant("adagrad", {"optimizer": "adagrad", "lr": 0.1}),
        Variant("tied-weights", {"tied": True}),
        Variant("ranking-loss", {"loss": "bpr"}),
        Variant("resumed", {"interrupted": 4}),
        Variant("short-sessions-first", {"ordering": "short-first", "smoothing": 0.1}),
        Variant("rate-x30", {"lr": 0.15}, "rate-too-large", "plain"),
        Variant("gradients-never-cleared", {"zero_grad": False}, "no-zero-grad", "plain"),
        Variant("softmax-in-the-model", {"loss": "probabilities"}, "softmax-twice", "plain"),
        Variant("batch-taken-for-time", {"batch_first": False}, "wrong-dimension", "plain"),
        Variant("sees-both-ways", {"bidirectional": True}, "leaked-answer", "plain"),
        Variant("all-items-unknown", {"known": False}, "at-chance", "plain"),
        Variant("items-at-rate-x1000", {"item_lr": 5.0}, "update-outlier", "plain", also=("rate-too-large",)),
    ),
)
