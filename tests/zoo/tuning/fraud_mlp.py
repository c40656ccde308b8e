"""A table with a rare class. Balanced samplers and class weights, or neither; validation by balanced accuracy."""

from __future__ import annotations

import torch
from sklearn.datasets import make_classification
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
from zoo.program import Program, Record, Variant


def table(share: float, classes: int) -> tuple[Tensor, Tensor]:
    rest = (1 - share) / (classes - 1)
    x, y = make_classification(
        6000, 12, n_informative=6, n_classes=classes, weights=[rest] * (classes - 1), class_sep=0.5, flip_y=0.0,
        n_clusters_per_class=1, random_state=3,
    )  # fmt: skip
    return torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y)


def balanced_accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    right = (logits.argmax(dim=1) == targets).float()
    return torch.stack([right[targets == c].mean() for c in targets.unique()]).mean()


def train(
    record: Record,
    seed: int,
    share: float = 0.02,
    classes: int = 2,
    remedy: str | None = None,
    lr: float = 1e-2,
    epochs: int = 8,
    amsgrad: bool = False,
) -> float:
    torch.manual_seed(seed)
    x, y = table(share, classes)
    x, test_x, y, test_y = x[:4000], x[4000:], y[:4000], y[4000:]
    counts = y.bincount()
    sampler = WeightedRandomSampler((1 / counts)[y].tolist(), len(y)) if remedy == "sampler" else None
    loader = DataLoader(TensorDataset(x, y), batch_size=80, sampler=sampler, shuffle=sampler is None)

    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, classes))
    criterion = nn.CrossEntropyLoss(weight=len(y) / (classes * counts) if remedy == "weights" else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, amsgrad=amsgrad)

    with record(model, optimizer, criterion) as recorder:
        for epoch in range(epochs):
            model.train()
            losses = []
            for features, labels in loader:
                with recorder.step() as step:
                    optimizer.zero_grad()
                    loss = criterion(model(features), labels)
                    step.backward(loss)
                    optimizer.step()
                losses.append(loss.detach())
            model.eval()
            with torch.no_grad(), recorder.evaluate("valid"):
                logits = model(test_x)
            recorder.log("train", epoch=epoch, loss=torch.stack(losses).mean())
            recorder.log(
                "valid",
                epoch=epoch,
                loss=criterion(logits, test_y),
                accuracy=(logits.argmax(1) == test_y).float().mean(),
            )
    return float(balanced_accuracy(logits, test_y))


PROGRAM = Program(
    "fraud-mlp",
    train,
    (
        Variant("weights", {"remedy": "weights"}),
        Variant("sampler", {"remedy": "sampler", "amsgrad": True}),
        Variant("balanced", {"share": 0.5}),
        Variant("four-classes", {"share": 0.25, "classes": 4}),
        Variant("weights-1-in-100", {"remedy": "weights", "share": 0.01}),
        Variant("four-classes-weights", {"share": 0.02, "classes": 4, "remedy": "weights"}),
        Variant("1-in-20", {"share": 0.05}, "class-imbalance", "weights"),
        Variant("1-in-50", {"share": 0.02}, "class-imbalance", "weights"),
        Variant("1-in-100", {"share": 0.01}, "class-imbalance", "weights-1-in-100"),
        Variant("four-classes-1-in-50", {"share": 0.02, "classes": 4}, "class-imbalance", "four-classes-weights"),
    ),
)
