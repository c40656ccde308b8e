"""Intents of short made-up sentences: embeddings, mean pooling or a recurrent encoder, AdamW, padded batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from zoo.program import Program, Record, Variant

PAD, UNKNOWN, BUT = 0, 1, 2
CLASSES, KEYWORDS, FILLERS = 5, 8, 90
FIRST_KEYWORD, FIRST_FILLER = 3, 3 + CLASSES * KEYWORDS
VOCABULARY = FIRST_FILLER + FILLERS
Sentence = tuple[Tensor, int]


def keyword(intent: int, generator: torch.Generator) -> int:
    return FIRST_KEYWORD + intent * KEYWORDS + int(torch.randint(KEYWORDS, (1,), generator=generator))


def corpus(count: int, seed: int, shares: tuple[float, ...]) -> list[Sentence]:
    """Sentences with a keyword of their intent. In some, what comes before "but" does not count."""
    generator = torch.Generator().manual_seed(seed)
    intents = torch.multinomial(torch.tensor(shares), count, replacement=True, generator=generator).tolist()
    common = 1.0 / torch.arange(1, FILLERS + 1)  # Zipf
    made = []
    for intent in intents:
        length = int(torch.randint(4, 10, (1,), generator=generator))
        words = (FIRST_FILLER + torch.multinomial(common, length, replacement=True, generator=generator)).tolist()
        words[length - 1 - int(torch.randint(2, (1,), generator=generator))] = keyword(intent, generator)
        if torch.rand(1, generator=generator) < 0.3:
            other = int(intent + torch.randint(1, CLASSES, (1,), generator=generator)) % CLASSES
            words = [keyword(other, generator), BUT, *words]
        made.append((torch.tensor(words), int(intent)))
    return made


def collate(sentences: list[Sentence]) -> dict[str, Tensor]:
    words = [each for each, _ in sentences]
    return {
        "input_ids": pad_sequence(words, batch_first=True, padding_value=PAD),
        "lengths": torch.tensor([len(each) for each in words]),
        "labels": torch.tensor([intent for _, intent in sentences]),
    }


def pretrained() -> Tensor:
    """Embeddings that know which keywords go together."""
    generator = torch.Generator().manual_seed(3)
    meanings = torch.randn(CLASSES, 32, generator=generator).repeat_interleave(KEYWORDS, dim=0)
    weight = 0.5 * torch.randn(VOCABULARY, 32, generator=generator)
    weight[FIRST_KEYWORD:FIRST_FILLER] += meanings
    weight[PAD] = 0.0
    return weight


class IntentModel(nn.Module):
    def __init__(self, encoder: str, gain: float, dropout: float, freezes: bool, caches: bool) -> None:
        super().__init__()
        self.embedding: nn.Module = nn.Embedding(VOCABULARY, 32, padding_idx=PAD)
        self.rnn: nn.Module | None = None
        if encoder == "gru":
            self.rnn = nn.GRU(32, 32, batch_first=True)
        elif encoder == "relu-rnn":
            rnn = nn.RNN(32, 32, nonlinearity="relu", batch_first=True)
            rnn.weight_hh_l0.data.copy_(gain * torch.eye(32))
            self.rnn = rnn
        self.head: Any = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, CLASSES))
        if freezes:
            self.embedding = nn.Embedding.from_pretrained(pretrained(), freeze=True, padding_idx=PAD)
        self.caches = caches

    def encode(self, input_ids: Tensor, lengths: Tensor) -> Tensor:
        embedded = self.embedding(input_ids)
        if self.rnn is None:
            return embedded.sum(dim=1) / lengths.unsqueeze(1)
        states, _ = self.rnn(embedded)
        return states[torch.arange(len(states)), lengths - 1]

    def forward(self, input_ids: Tensor, lengths: Tensor) -> Tensor:
        if self.caches:  # left from the time when the encoder was a fixed one
            with torch.no_grad():
                features = self.encode(input_ids, lengths)
        else:
            features = self.encode(input_ids, lengths)
        return self.head(features)


def train(
    record: Record,
    seed: int,
    encoder: str = "mean",
    rate: float = 1e-2,
    batch: int = 32,
    epochs: int = 14,
    count: int = 576,
    linear: str | None = None,
    smoothing: float = 0.0,
    dropout: float = 0.0,
    freezes: bool = False,
    caches: bool = False,
    weight_decay: float = 0.01,
    gain: float = 1.0,
    shares: tuple[float, ...] = (1.0,) * CLASSES,
    corruption: str | None = None,
    head_weight: float | None = None,
) -> float:
    torch.manual_seed(seed)
    train_set, valid_set = corpus(count, 1, shares), corpus(500, 2, (1.0,) * CLASSES)
    if corruption == "sorted-apart":  # by length, to pad less, but the labels stay where they were
        labels = [intent for _, intent in train_set]
        train_set = list(zip(sorted((words for words, _ in train_set), key=len), labels, strict=True))
    if corruption == "unknown":  # another tokenizer's vocabulary
        train_set, valid_set = (
            [(torch.full_like(words, UNKNOWN), intent) for words, intent in each] for each in (train_set, valid_set)
        )
    loader: DataLoader[Any] = DataLoader(train_set, batch, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
    valid = collate(valid_set)

    model = IntentModel(encoder, gain, dropout, freezes, caches)
    if head_weight is not None:
        nn.init.constant_(model.head[0].weight, head_weight)
        nn.init.constant_(model.head[0].bias, 0.0)
        nn.init.constant_(model.head[3].weight, head_weight)
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=rate, weight_decay=weight_decay
    )
    total = {"of-one-epoch": len(loader)}.get(linear or "", len(loader) * epochs)
    warm = total // 10

    def factor(step: int) -> float:
        if linear is None:
            return 1.0
        return (step + 1) / (warm + 1) if step < warm else max(0.0, (total - step) / (total - warm))

    scheduler = LambdaLR(optimizer, factor)

    with record(model, optimizer, criterion, hparams={"encoder": encoder, "lr": rate}) as recorder:
        for epoch in range(epochs):
            model.train()
            running, right = 0.0, 0
            for inputs in loader:
                labels_ = inputs.pop("labels")
                with recorder.step() as step:
                    logits = model(**inputs)
                    loss = criterion(logits, labels_)
                    step.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                running += loss.item() * len(labels_)
                right += int((logits.argmax(dim=1) == labels_).sum())
            recorder.log("train", epoch=epoch, loss=running / count, accuracy=right / count)
            model.eval()
            with torch.no_grad(), recorder.evaluate("valid"):
                logits = model(valid["input_ids"], valid["lengths"])
                valid_loss = criterion(logits, valid["labels"]).item()
            accuracy = (logits.argmax(dim=1) == valid["labels"]).float().mean().item()
            recorder.log("valid", epoch=epoch, loss=valid_loss, accuracy=accuracy)
    return accuracy


PROGRAM = Program(
    "intents",
    train,
    (
        Variant("mean-pooled"),
        Variant("gru", {"encoder": "gru", "rate": 4e-3, "epochs": 10}),
        Variant("linear-warm-up", {"linear": "of-all-epochs"}),
        Variant("smoothing-dropout", {"smoothing": 0.1, "dropout": 0.3}),
        Variant("relu-rnn", {"encoder": "relu-rnn", "rate": 4e-3}),
        Variant("frozen-embeddings", {"freezes": True}),
        Variant("labels-left-behind", {"corruption": "sorted-apart"}, "wrong-labels", "mean-pooled"),
        Variant("all-unknown", {"corruption": "unknown"}, "at-chance", "mean-pooled"),
        Variant("weight-decay-5", {"weight_decay": 5.0}, "too-much-regularisation", "mean-pooled"),
        Variant("gru-under-no-grad", {"encoder": "gru", "rate": 4e-3, "epochs": 10, "caches": True}, "wiring", "gru"),
        Variant("rare-intents", {"shares": (0.48, 0.48, 0.015, 0.015, 0.01)}, "class-imbalance", "mean-pooled"),
        Variant("constant-head", {"head_weight": 0.1}, "init-zero-or-symmetric", "mean-pooled"),
        Variant(
            "recurrence-x2.5", {"encoder": "relu-rnn", "rate": 4e-3, "gain": 2.5}, "exploding-gradients", "relu-rnn"
        ),
        Variant("linear-over-one-epoch", {"linear": "of-one-epoch"}, "rate-decayed", "linear-warm-up"),
    ),
)
