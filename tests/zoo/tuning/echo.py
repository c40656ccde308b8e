"""A recurrent network repeats what it read two tokens ago, on padded batches of sequences of unequal length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from zoo.program import Program, Variant

VOCABULARY, DELAY, IGNORED = 9, 2, -100


def sample(count: int, longest: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (count, time) padded with 0, lengths, and at each place the token of two places ago."""
    lengths = torch.randint(DELAY + 2, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    tokens = torch.randint(1, VOCABULARY, (count, longest), generator=generator)
    tokens[torch.arange(longest) >= lengths[:, None]] = 0
    targets = torch.full_like(tokens, IGNORED)
    targets[:, DELAY:] = tokens[:, :-DELAY]
    targets[tokens == 0] = IGNORED
    return tokens, lengths, targets


class Echo(nn.Module):
    def __init__(self, cell: str, hidden: int, gain: float | None) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16, padding_idx=0)
        self.rnn: Any = nn.LSTM(16, hidden, batch_first=True)
        if cell == "relu":
            self.rnn = nn.RNN(16, hidden, nonlinearity="relu", batch_first=True)
        if gain is not None:
            nn.init.orthogonal_(self.rnn.weight_hh_l0, gain)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        logits: Tensor = self.head(states)
        return logits


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    cell: str = "lstm",
    gain: float | None = None,
    longest: int = 10,
    method: str = "adam",
    rate: float = 1e-2,
    clip: float | None = None,
    steps: int = 300,
    clear: bool = True,
    curriculum: int | None = None,
    garbled: tuple[int, int] | None = None,
) -> float:
    """Accuracy over the places of 256 new sequences."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    model = Echo(cell, 32, gain)
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORED)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    if method == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    held_out = sample(256, longest, torch.Generator().manual_seed(seed + 2))

    @torch.no_grad()
    def accuracy() -> float:
        tokens, lengths, targets = held_out
        guesses = model(tokens, lengths).argmax(-1)
        return float((guesses == targets)[targets != IGNORED].float().mean())

    with record(model, optimizer, criterion) as recorder:
        for it in range(steps):
            length = 5 if curriculum and it < curriculum else longest
            tokens, lengths, targets = sample(16, length, generator)
            if garbled and garbled[0] <= it < garbled[1]:
                targets = torch.where(targets == IGNORED, targets, 1)
            if clear:
                optimizer.zero_grad()
            with recorder.step() as step:
                logits = model(tokens, lengths)
                loss = criterion(logits.flatten(0, 1), targets.flatten())
                step.backward(loss)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if it % 50 == 49:
                recorder.log("valid", accuracy=accuracy())
    return accuracy()


PROGRAM = Program(
    "echo",
    train,
    (
        Variant("lstm"),
        Variant("curriculum", {"curriculum": 150, "longest": 12}),
        Variant("sgd-clipped-each-step", {"method": "sgd", "rate": 0.5, "clip": 0.1, "steps": 500}),
        Variant(
            "sgd-clipped-to-nothing",
            {"method": "sgd", "rate": 0.5, "clip": 1e-4, "steps": 500},
            "clipping-too-tight",
            "sgd-clipped-each-step",
        ),
        Variant("never-cleared", {"clear": False}, "no-zero-grad", "lstm"),
        Variant("relu-rnn", {"cell": "relu", "gain": 1.0, "longest": 24, "rate": 3e-3, "clip": 1.0}),
        Variant(
            "relu-rnn-gain-2.5",
            {"cell": "relu", "gain": 2.5, "longest": 24, "rate": 3e-3},
            "exploding-gradients",
            "relu-rnn",
        ),
        Variant("garbled-batches", {"garbled": (270, 290)}, "spike", "lstm"),
    ),
)
