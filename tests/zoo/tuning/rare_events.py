"""Three in a hundred parts fail; a network should find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
from zoo.program import Program, Variant


def parts(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ten measurements of each part; failing ones lie in a shifted cloud that overlaps the others."""
    failed = (torch.rand(count, generator=generator) < 0.03).long()
    direction = torch.tensor([1.0, -1.0, 0.8, 0.0, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0])
    noise = torch.randn(count, 10, generator=generator)
    return noise + 1.1 * failed[:, None] * direction, failed


def balanced_accuracy(guesses: Tensor, labels: Tensor) -> float:
    """Mean of the shares found among failing and among sound parts."""
    shares = [(guesses == labels)[labels == kind].float().mean() for kind in (0, 1)]
    return torch.stack(shares).mean().item()


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    remedy: str | None = None,
    rate: float = 1e-3,
    epochs: int = 8,
    batch: int = 64,
    dropout: float = 0.2,
) -> float:
    """Balanced accuracy on 4000 new parts."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    inputs, labels = parts(4000, generator)
    test_inputs, test_labels = parts(4000, generator)

    weights = 0.5 / torch.bincount(labels).float() * len(labels)
    sampler = WeightedRandomSampler(weights[labels].tolist(), len(labels)) if remedy == "sampler" else None
    data = TensorDataset(inputs, labels)
    loader = DataLoader(data, batch_size=batch, sampler=sampler, shuffle=sampler is None, drop_last=True)
    criterion = nn.CrossEntropyLoss(weight=weights if remedy == "weights" else None)

    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    with record(model, optimizer, criterion) as recorder:
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                with recorder.step() as step:
                    loss = criterion(model(x), y)
                    step.backward(loss)
                optimizer.step()
            model.eval()
            with recorder.evaluate("valid"), torch.no_grad():
                logits = model(test_inputs)
            model.train()
            accuracy = (logits.argmax(1) == test_labels).float().mean()
            recorder.log("valid", epoch=epoch, loss=criterion(logits, test_labels), accuracy=accuracy)
    return balanced_accuracy(logits.argmax(1), test_labels)


PROGRAM = Program(
    "rare-events",
    train,
    (
        Variant("class-weights", {"remedy": "weights"}),
        Variant("weighted-sampler", {"remedy": "sampler"}),
        Variant("ignored", {}, "class-imbalance", "class-weights"),
    ),
)
