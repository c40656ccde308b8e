"""Orders to a restaurant, written by a small grammar: what does the guest want? Convolutions over words, Adam.

The first clause is often negated ("do not cancel the soup, add a salad"), so that single words do not suffice.
"""

from __future__ import annotations

import random
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional
from zoo.program import Program, Record, Variant

VERBS = {
    "add": ["add", "bring", "include", "get"],
    "cancel": ["cancel", "drop", "remove", "scrap"],
    "change": ["change", "swap", "replace", "exchange"],
    "price": ["price", "charge", "bill", "quote"],
    "praise": ["love", "enjoy", "like", "adore"],
    "complain": ["hate", "return", "dislike", "regret"],
}
ITEMS = [
    "soup",
    "salad",
    "pizza",
    "bread",
    "rice",
    "beans",
    "fish",
    "steak",
    "cake",
    "tea",
    "coffee",
    "juice",
    "water",
    "wine",
    "cheese",
    "eggs",
]
FILLERS = [
    "hello",
    "hi",
    "good",
    "evening",
    "sir",
    "madam",
    "please",
    "thanks",
    "if",
    "possible",
    "today",
    "quickly",
    "now",
    "well",
    "maybe",
    "ok",
    "then",
    "again",
]
REST = [
    "do",
    "not",
    "never",
    "i",
    "would",
    "we",
    "rather",
    "want",
    "to",
    "the",
    "a",
    "two",
    "some",
    "but",
    "instead",
    "and",
    ".",
    ",",
    "?",
    "!",
]
VERB_FORMS = [verb for verbs in VERBS.values() for verb in verbs]
VOCABULARY = {word: number for number, word in enumerate(["<pad>", "<unk>", *VERB_FORMS, *ITEMS, *FILLERS, *REST])}
LENGTH = 18


def sentence(chance: random.Random) -> tuple[list[str], int]:
    intents = list(VERBS)
    intent = chance.randrange(len(intents))
    other = chance.choice([i for i in range(len(intents)) if i != intent])
    noun = [chance.choice(["the", "a", "some", "two"]), chance.choice(ITEMS)]
    words = [chance.choice(FILLERS) for _ in range(chance.randrange(3))]
    wanted = [*chance.choice([["i", "would"], ["we", "want", "to"], []]), chance.choice(VERBS[intents[intent]]), *noun]
    refused = [
        *chance.choice([["do", "not"], ["never"], ["i", "would", "not"]]),
        chance.choice(VERBS[intents[other]]),
        *chance.choice([[], ["the", chance.choice(ITEMS)]]),
    ]
    clauses = chance.choice([[wanted], [refused, ["but"], wanted], [wanted, ["and"], refused]])
    words += [word for clause in clauses for word in clause] + [chance.choice([".", "!", "?"])]
    return ["<unk>" if chance.random() < 0.06 else word for word in words][:LENGTH], intent


@cache
def corpus(count: int, seed: int) -> tuple[Tensor, Tensor]:
    chance = random.Random(seed)
    pairs = [sentence(chance) for _ in range(count)]
    ids = [[VOCABULARY[w] for w in words] + [0] * (LENGTH - len(words)) for words, _ in pairs]
    return torch.tensor(ids), torch.tensor([label for _, label in pairs])


class TextCNN(nn.Module):
    def __init__(self, width: int, dropout: float, probabilities: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(len(VOCABULARY), width, padding_idx=0)
        self.narrow = nn.Conv1d(width, width, 2, padding=1)
        self.wide = nn.Conv1d(width, width, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * width, len(VERBS))
        self.probabilities = probabilities

    def forward(self, ids: Tensor) -> Tensor:
        x = self.dropout(self.words(ids)).transpose(1, 2)
        pooled = torch.cat([functional.relu(conv(x)).amax(dim=2) for conv in (self.narrow, self.wide)], dim=1)
        logits: Tensor = self.head(self.dropout(pooled))
        return functional.softmax(logits, dim=1) if self.probabilities else logits


class BagOfWords(nn.Module):
    """The mean of embeddings, through a hidden layer: cannot tell which verb is negated."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(len(VOCABULARY), width, padding_idx=0)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, len(VERBS))
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        mean = self.words(ids).sum(dim=1) / (ids > 0).sum(dim=1, keepdim=True)
        out: Tensor = self.head(functional.dropout(functional.relu(self.hidden(mean)), self.dropout, self.training))
        return out


def train(
    record: Record,
    seed: int,
    lr: float = 3e-3,
    batch_size: int = 32,
    epochs: int = 8,
    samples: int = 768,
    width: int = 32,
    dropout: float = 0.2,
    weight_decay: float = 0.0,
    model_kind: str = "cnn",
    probabilities: bool = False,
    wrong: float = 0.0,
    table: str = "trained",
    warmup: int = 0,
    smoothing: float = 0.0,
    short_first: bool = False,
    evaluates: bool = True,
) -> float:
    torch.manual_seed(seed)
    ids, labels = corpus(samples, 1)
    test_ids, test_labels = corpus(600, 2)
    if wrong:  # annotators in a hurry
        labels = torch.where(torch.rand(len(labels)) < wrong, torch.randint(len(VERBS), labels.shape), labels)

    model = BagOfWords(width, dropout) if model_kind == "bag" else TextCNN(width, dropout, probabilities)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    if table == "replaced":  # "pretrained" vectors are loaded into a new table, which the optimizer does not know
        model.words = nn.Embedding.from_pretrained(0.1 * torch.randn(len(VOCABULARY), width), freeze=False)
    elif table == "frozen":
        model.words.requires_grad_(False)

    done = 0
    with record(model, optimizer) as recorder:
        for epoch in range(epochs):
            order = torch.randperm(len(ids))
            if short_first and epoch < 2:
                order = order[(ids[order] > 0).sum(dim=1).argsort(stable=True)]
            model.train()
            for start in range(0, len(order), batch_size):
                for group in optimizer.param_groups:
                    group["lr"] = lr * min(1.0, (done + 1) / (warmup + 1))
                chosen = order[start : start + batch_size]
                optimizer.zero_grad()
                with recorder.step() as step:
                    loss = functional.cross_entropy(model(ids[chosen]), labels[chosen], label_smoothing=smoothing)
                    step.backward(loss)
                optimizer.step()
                done += 1
            if evaluates:
                model.eval()
            with recorder.evaluate("valid"), torch.no_grad():
                accuracy = (model(test_ids).argmax(dim=1) == test_labels).float().mean().item()
            recorder.log("valid", epoch=epoch, accuracy=accuracy)

    model.eval()
    with torch.no_grad():
        return (model(test_ids).argmax(dim=1) == test_labels).float().mean().item()


PROGRAM = Program(
    "orders-textcnn",
    train,
    (
        Variant("plain"),
        Variant("warm-up", {"warmup": 60, "lr": 6e-3}),
        Variant("bag-of-words", {"model_kind": "bag", "lr": 5e-3, "epochs": 12}),
        Variant("frozen-table", {"table": "frozen", "width": 48}),
        Variant("small-batches", {"batch_size": 8, "lr": 1.5e-3, "epochs": 4}),
        Variant("smoothed-short-first", {"smoothing": 0.1, "short_first": True}),
        Variant("half-dropped-out", {"dropout": 0.5, "epochs": 14}),
        Variant("rate-x70", {"lr": 0.2}, "rate-too-large", "plain"),
        Variant("head-gives-probabilities", {"probabilities": True}, "softmax-twice", "plain"),
        Variant("table-replaced-late", {"table": "replaced"}, "wiring", "plain"),
        Variant("two-fifths-mislabelled", {"wrong": 0.4}, "wrong-labels", "plain"),
        Variant("weight-decay-0.1", {"weight_decay": 0.1}, "too-much-regularisation", "plain"),
        Variant("96-sentences", {"samples": 96, "epochs": 90, "dropout": 0.0, "width": 64}, "overfitting", "plain"),
        Variant(
            "validates-in-train-mode",
            {"evaluates": False, "dropout": 0.5, "epochs": 14},
            "validation-in-train-mode",
            "half-dropped-out",
        ),
    ),
)
