"""Sentences of a small grammar, a Transformer predicts the next character. AdamW, warm-up and cosine by the step."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

CONTEXT = 24


def text(sentences: int) -> str:
    draw = random.Random(0)
    subjects, verbs = ["the pilot", "a glider", "the tower", "my plane"], ["climbs", "turns", "lands", "waits"]
    places = ["over the hill", "near the field", "in the wind", "after noon"]
    return "".join(f"{draw.choice(subjects)} {draw.choice(verbs)} {draw.choice(places)}. " for _ in range(sentences))


class Block(nn.Module):
    def __init__(self, width: int, causal: bool, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.drop, self.causal = nn.Dropout(dropout), causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.drop(self.out(mixed.transpose(1, 2).flatten(2)))
        out: Tensor = x + self.drop(self.mlp(self.norm2(x)))
        return out


class Transformer(nn.Module):
    def __init__(self, symbols: int, width: int, causal: bool, dropout: float, tied: bool) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(symbols, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(Block(width, causal, dropout), Block(width, causal, dropout))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)
        nn.init.normal_(self.token.weight, std=0.1)
        nn.init.normal_(self.place.weight, std=0.1)
        if tied:
            self.head.weight = self.token.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


def train(
    record: Record,
    seed: int,
    lr: float = 8e-3,
    schedule: str = "cosine",
    steps: int = 300,
    causal: bool = True,
    shift: int = 1,
    dropout: float = 0.0,
    decay: float = 0.01,
    tied: bool = False,
    gain: float = 1.0,
    clip: float = 1.0,
    embedding_rate: float | None = None,
) -> float:
    torch.manual_seed(seed)
    letters = text(600)
    symbols = sorted(set(letters))
    data = torch.tensor([symbols.index(c) for c in letters])
    train_data, test_data = data[:-3000], data[-3000:]

    model = Transformer(len(symbols), 32, causal, dropout, tied)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.mul_(gain)
    embeddings = [model.token.weight, model.place.weight]
    others = [p for p in model.parameters() if not any(p is e for e in embeddings)]
    groups: list[dict[str, Any]] = [
        {"params": others},
        {"params": embeddings, "lr": embedding_rate or lr, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=decay)

    def factor(i: int) -> float:
        warm, period = min(1.0, (i + 1) / 30), steps // 15 if schedule == "cosine-too-short" else steps
        if schedule == "warm-up-too-long":
            return (i + 1) / (100 * steps)
        return (
            warm if schedule == "constant" else warm * (0.01 + 0.495 * (1 + math.cos(math.pi * min(1.0, i / period))))
        )

    sched = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

    def loss_on(tokens: Tensor, starts: Tensor) -> Tensor:
        windows = tokens[starts[:, None] + torch.arange(CONTEXT + 1)]
        logits = model(windows[:, :-1])
        targets = windows[:, shift : shift + CONTEXT]
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    with record(model, optimizer, F.cross_entropy) as recorder:
        for i in range(steps):
            with recorder.step() as step:
                loss = loss_on(train_data, torch.randint(len(train_data) - CONTEXT - 1, (12,)))
                step.backward(loss)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
            sched.step()
            if i % 50 == 49:
                model.eval()
                with recorder.evaluate("valid"), torch.no_grad():
                    recorder.log("valid", loss=loss_on(test_data, torch.arange(0, 2900, 40)))
                model.train()

    model.eval()
    with torch.no_grad():
        return -float(loss_on(test_data, torch.arange(0, 2900, 20)))


PROGRAM = Program(
    "text-transformer",
    train,
    (
        Variant("plain"),
        Variant("tied", {"tied": True, "dropout": 0.1}),
        Variant("constant-rate", {"schedule": "constant"}),
        Variant("rate-x10", {"lr": 0.08}, "rate-too-large", "plain"),
        Variant("rate-x100", {"lr": 0.8}, "rate-too-large", "plain"),
        Variant("rate-over-300", {"lr": 3e-5}, "rate-too-small", "plain"),
        Variant("not-causal", {"causal": False}, "leaked-answer", "plain"),
        Variant("not-shifted", {"shift": 0}, "leaked-answer", "plain"),
        Variant(
            "cosine-too-short", {"schedule": "cosine-too-short"}, "rate-decayed", "plain", also=("schedule-rhythm",)
        ),
        Variant(
            "warm-up-too-long", {"schedule": "warm-up-too-long"}, "schedule-rhythm", "plain", also=("rate-too-small",)
        ),
        Variant("init-x30", {"gain": 30.0}, "init-too-large", "plain"),
        Variant("decay-x10000", {"decay": 100.0}, "too-much-regularisation", "plain"),
        Variant("dropout-0.9", {"dropout": 0.9}, "too-much-regularisation", "tied"),
        Variant("embeddings-x300", {"embedding_rate": 2.4}, "update-outlier", "plain", also=("rate-too-large",)),
    ),
)
