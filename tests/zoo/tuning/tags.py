"""Several tags at once from the words of a short text: one logit a tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from zoo.program import Program, Variant

WORDS, TAGS = 60, 6


def texts(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Log counts of words (count, 60) and tags (count, 6) of 0 or 1; a tag raises the rate of its own words."""
    owners = torch.randint(TAGS, (WORDS,), generator=torch.Generator().manual_seed(5))
    tags = (torch.rand(count, TAGS, generator=generator) < 0.3).float()
    rates = 0.5 + 1.2 * tags[:, owners]
    return torch.poisson(rates, generator=generator).log1p(), tags


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    hidden: int = 48,
    rate: float = 0.3,
    epochs: int = 20,
    probabilities: bool = False,
    clear: bool = True,
    weight_decay: float = 0.0,
    label_noise: float = 0.0,
) -> float:
    """Share of right tags on 1000 new texts."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    words, tags = texts(1200, generator)
    new_words, new_tags = texts(1000, generator)
    centre = words.mean(0)
    flips = (torch.rand(tags.shape, generator=generator) < label_noise).float()
    loader = DataLoader(
        TensorDataset(words - centre, (tags - flips).abs()), batch_size=32, shuffle=True, drop_last=True
    )

    layers = [nn.Linear(WORDS, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, TAGS)]
    model = nn.Sequential(*layers, nn.Sigmoid()) if probabilities else nn.Sequential(*layers)
    cut = 0.5 if probabilities else 0.0
    loss_fn = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=weight_decay)

    with record(model, optimizer, loss_fn, hparams={"rate": rate, "epochs": epochs}) as recorder:
        for epoch in range(epochs):
            for inputs, targets in loader:
                with recorder.step() as step:
                    loss = loss_fn(model(inputs), targets)
                    step.backward(loss)
                optimizer.step()
                if clear:
                    optimizer.zero_grad()
            model.eval()
            with recorder.evaluate("valid"), torch.no_grad():
                output = model(new_words - centre)
                right = ((output > cut) == (new_tags > 0.5)).float().mean()
                recorder.log("valid", epoch=epoch, loss=loss_fn(output, new_tags), accuracy=right)
            model.train()
    return float(right)


PROGRAM = Program(
    "tags",
    train,
    (
        Variant("plain"),
        Variant("weight-decay", {"weight_decay": 1e-3}),
        Variant("small-rate-long", {"rate": 0.1, "epochs": 50}),
        Variant("sigmoid-twice", {"probabilities": True}, "softmax-twice", "plain"),
        Variant("never-cleared", {"clear": False}, "no-zero-grad", "plain"),
        Variant("noisy-tags", {"label_noise": 0.4}, "wrong-labels", "plain"),
    ),
)
