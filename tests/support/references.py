"""Trainings that the reference implementation recorded, run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from support.trainings import Training, train
from torch import nn

VALUES = Path(__file__).parents[1] / "data" / "cockpit-values"

REFERENCE_MODELS: dict[str, Callable[[], nn.Module]] = {
    "logreg": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 4)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 4)),
    "cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)
    ),
}


def reference_training(path: Path, reference: dict[str, Any], **settings: Any) -> Training:
    model = REFERENCE_MODELS[reference["problem"]]().double()
    model.load_state_dict({k: torch.tensor(v, dtype=torch.float64) for k, v in reference["initial_parameters"].items()})
    options = {k: v for k, v in reference["optimizer_options"].items() if k != "decoupled_weight_decay"}
    kind = getattr(torch.optim, reference["optimizer"])
    pairs = zip(reference["inputs"], reference["targets"], strict=True)
    batches = [(torch.tensor(x, dtype=torch.float64), torch.tensor(y)) for x, y in pairs]
    return train(path, model, batches, nn.CrossEntropyLoss(), lambda p: kind(p, **options), **settings)
