"""From the time in words to the time in figures: "ten to nine in the evening" becomes 8:50pm. Two GRUs, SGD, clipping.

The decoder is trained on the true prefix and tested on its own. Sequences have different lengths.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

PAD, BEGIN, END = 0, 1, 2
FIGURES = ["<pad>", "<s>", "</s>", *"0123456789:", "am", "pm"]
ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
]
ONES += ["sixteen", "seventeen", "eighteen", "nineteen"]
TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty"}
WORDS = [
    "<pad>",
    *ONES,
    *TENS.values(),
    *["past", "to", "half", "quarter", "o'clock", "in", "the", "morning", "evening"],
]


def spoken(number: int) -> list[str]:
    if number < 20:
        return [ONES[number]]
    return [TENS[number // 10 * 10], *([ONES[number % 10]] if number % 10 else [])]


def phrase(hour: int, minute: int, afternoon: bool, way: str) -> list[str]:
    part = ["in", "the", "evening" if afternoon else "morning"]
    if minute == 0:
        return [*spoken(hour), "o'clock", *part]
    if way == "plain":
        return [*spoken(hour), *spoken(minute), *part]
    if minute == 30:
        return ["half", "past", *spoken(hour), *part]
    if minute < 30:
        return [*(["quarter"] if minute == 15 else spoken(minute)), "past", *spoken(hour), *part]
    return [*(["quarter"] if minute == 45 else spoken(60 - minute)), "to", *spoken(hour % 12 + 1), *part]


@cache
def pairs() -> tuple[Tensor, Tensor]:
    """Phrases, padded on the left, and their figures, begun, ended and padded on the right."""
    sources, targets = [], []
    for hour, minute, afternoon, way in itertools.product(range(1, 13), range(60), (False, True), ("plain", "old")):
        words = [WORDS.index(word) for word in phrase(hour, minute, afternoon, way)]
        figures = [FIGURES.index(each) for each in [*f"{hour}:{minute:02}", "pm" if afternoon else "am"]]
        sources.append([PAD] * (8 - len(words)) + words)
        targets.append([BEGIN, *figures, END] + [PAD] * (6 - len(figures)))
    order = np.random.default_rng(4).permutation(len(sources))
    return torch.tensor(sources)[order], torch.tensor(targets)[order]


class Translator(nn.Module):
    def __init__(self, width: int, hidden: int, forgets: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), width, padding_idx=PAD)
        self.figures = nn.Embedding(len(FIGURES), width, padding_idx=PAD)
        self.encoder = nn.GRU(width, hidden, batch_first=True)
        self.decoder = nn.GRU(width + hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, len(FIGURES))
        self.forgets = forgets

    def encode(self, source: Tensor) -> Tensor:
        _, state = self.encoder(self.words(source))
        if self.forgets:  # a new state is begun where the encoder's should be handed on
            state = torch.zeros_like(state)
        return state

    def decode(self, prefix: Tensor, state: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        given = context.transpose(0, 1).expand(-1, prefix.shape[1], -1)
        hidden, state = self.decoder(torch.cat([self.figures(prefix), given], dim=2), state)
        return self.out(hidden), state

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        context = self.encode(source)
        return self.decode(prefix, context, context)[0]

    @torch.no_grad()
    def translate(self, source: Tensor, length: int) -> Tensor:
        state = context = self.encode(source)
        figure = torch.full((len(source), 1), BEGIN)
        found = []
        for _ in range(length):
            logits, state = self.decode(figure, state, context)
            figure = logits.argmax(dim=2)
            found.append(figure)
        return torch.cat(found, dim=1)


class Training:
    """Holds what a training needs; options come as a dictionary, as from a configuration file."""

    def __init__(self, record: Record, seed: int, options: dict[str, Any]) -> None:
        self.options = options
        torch.manual_seed(seed)
        sources, targets = pairs()
        self.train_set, self.test_set = (sources[:2000], targets[:2000]), (sources[-400:], targets[-400:])
        if options["unlabelled"]:  # some lines of the file have no translation
            holes = torch.rand(len(self.train_set[1])) < options["unlabelled"]
            self.train_set = self.train_set[0], self.train_set[1].masked_fill(holes[:, None], PAD)
        self.model = Translator(24, options["hidden"], options["forgets"])
        if options["init"]:
            for name, weight in self.model.named_parameters():
                if "weight" in name and "words" not in name and "figures" not in name:
                    nn.init.normal_(weight, std=options["init"])
        if options["optimizer"] == "adam":
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(self.model.parameters(), options["rate"])
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), options["rate"], momentum=0.9)
        self.schedule = self.made_schedule()
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=PAD)
        self.record = record

    def made_schedule(self) -> torch.optim.lr_scheduler.LRScheduler | None:
        kind, steps = self.options["schedule"], self.options["steps"]
        if kind == "halves":
            return torch.optim.lr_scheduler.StepLR(self.optimizer, self.options["period"], 0.5)
        if kind == "warm":
            return torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.02, total_iters=steps // 6)
        return None

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        prefix, wanted = target[:, :-1], target[:, 1:]
        if self.options["prefix"] == "answer":  # not moved by one
            prefix = wanted
        scores = self.model(source, prefix)
        if self.options["softmax_over"] is not None:
            scores = scores.softmax(dim=self.options["softmax_over"]).clamp_min(1e-9).log()
        if self.options["by_sequence"]:  # every sequence counts the same, long or short
            mask = (wanted != PAD).float()
            losses = nn.functional.cross_entropy(scores.transpose(1, 2), wanted, reduction="none")
            return ((losses * mask).sum(dim=1) / mask.sum(dim=1)).mean()
        loss: Tensor = self.loss_fn(scores.reshape(-1, len(FIGURES)), wanted.reshape(-1))
        return loss

    def accuracy(self, sources: Tensor, targets: Tensor) -> float:
        """The share of figures that are right, when the model goes on from its own figures."""
        wanted = targets[:, 1:]
        right = self.model.translate(sources, wanted.shape[1]) == wanted
        return float(right[wanted != PAD].float().mean())

    def run(self) -> float:
        steps, size, clip = self.options["steps"], self.options["batch"], self.options["clip"]
        sources, targets = self.train_set
        overfit = self.options["one_batch"]
        mode = {"mode": "overfit-batch"} if overfit else {}
        with self.record(self.model, self.optimizer, self.loss_fn, **mode) as recorder:
            for number in range(steps):
                chosen = torch.arange(size) if overfit else torch.randint(len(sources), (size,))
                self.optimizer.zero_grad()
                with recorder.step() as step:
                    step.backward(self.loss(sources[chosen], targets[chosen]))
                    if clip is not None:
                        nn.utils.clip_grad_norm_(self.model.parameters(), clip)
                self.optimizer.step()
                if self.schedule is not None:
                    self.schedule.step()
                if number % 50 == 49 and not overfit:
                    with recorder.evaluate("valid"), torch.no_grad():
                        loss = self.loss_fn(
                            self.model(self.test_set[0], self.test_set[1][:, :-1]).transpose(1, 2),
                            self.test_set[1][:, 1:],
                        )
                    recorder.log("valid", loss=loss)
        return self.accuracy(sources[:size], targets[:size]) if overfit else self.accuracy(*self.test_set)


def train(record: Record, seed: int, **changes: Any) -> float:
    options: dict[str, Any] = {
        "optimizer": "sgd",
        "rate": 0.3,
        "clip": 1.0,
        "steps": 400,
        "batch": 32,
        "hidden": 48,
        "schedule": None,
        "period": 100,
        "forgets": False,
        "init": None,
        "prefix": "shifted",
        "softmax_over": None,
        "by_sequence": False,
        "unlabelled": 0.0,
        "one_batch": False,
    }
    assert options.keys() >= changes.keys()
    return Training(record, seed, options | changes).run()


PROGRAM = Program(
    "clock-seq2seq",
    train,
    (
        Variant("plain"),
        Variant("adam", {"optimizer": "adam", "rate": 5e-3}),
        Variant("warm-up", {"schedule": "warm", "rate": 0.5}),
        Variant("halved-twice", {"schedule": "halves", "period": 160}),
        Variant("clips-every-step", {"clip": 0.1, "rate": 2.0}),
        Variant("by-sequence", {"by_sequence": True}),
        Variant("one-batch", {"one_batch": True, "optimizer": "adam", "rate": 5e-3, "steps": 250}),
        Variant("clip-0.03", {"clip": 0.03}, "clipping-too-tight", "plain"),
        Variant("halved-every-15", {"schedule": "halves", "period": 15}, "rate-decayed", "halved-twice"),
        Variant("softmax-over-time", {"softmax_over": 1}, "wrong-dimension", "plain"),
        Variant("prefix-not-shifted", {"prefix": "answer"}, "leaked-answer", "plain"),
        Variant("empty-sequences", {"by_sequence": True, "unlabelled": 0.002}, "nonfinite", "by-sequence"),
        Variant("weights-of-deviation-2", {"init": 2.0}, "init-too-large", "plain", also=("saturated-units",)),
        Variant(
            "one-batch-state-not-handed-on",
            {"one_batch": True, "optimizer": "adam", "rate": 5e-3, "steps": 250, "forgets": True},
            "does-not-fit-one-batch",
            "one-batch",
            also=("wiring",),
        ),
    ),
)
