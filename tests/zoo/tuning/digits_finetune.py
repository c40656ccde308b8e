"""An encoder that knows the digits 0 to 4 learns 5 to 9. Frozen parts, adapters, forgotten parts; Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits
from torch import Tensor, nn
from zoo.program import Program, Record, Variant


class Adapter(nn.Module):
    """A correction of low rank, zero at the start."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        corrected: Tensor = x + self.up(self.down(x))
        return corrected


class Model(nn.Module):
    def __init__(self, encoder: nn.Module, adapted: bool, wiring: str) -> None:
        super().__init__()
        self.encoder = encoder
        self.adapter = Adapter(48, 4) if adapted else nn.Identity()
        middle = nn.Sequential(nn.Linear(48, 6), nn.ReLU())
        self.middle = [middle] if wiring == "in-a-list" else nn.ModuleList([middle])
        self.head = nn.Linear(6, 5)
        self.wiring = wiring

    def forward(self, images: Tensor) -> Tensor:
        features = self.adapter(self.encoder(images))
        if self.wiring == "detached":
            features = features.detach()
        hidden = self.middle[0](features)
        if self.wiring == "rewrapped":
            hidden = torch.tensor(hidden.tolist())
        logits: Tensor = self.head(hidden)
        return logits


def pretrained(images: Tensor, labels: Tensor, steps: int) -> nn.Sequential:
    encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
    head = nn.Linear(48, 5)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(steps):
        chosen = torch.randint(len(images), (64,))
        optimizer.zero_grad()
        F.cross_entropy(head(encoder(images[chosen])), labels[chosen]).backward()
        optimizer.step()
    return encoder


def train(
    record: Record,
    seed: int,
    lr: float = 2e-3,
    known: int = 150,
    frozen: bool = False,
    adapted: bool = False,
    wiring: str = "whole",
    thaws_at: int | None = None,
    batch: int = 32,
    steps: int = 400,
    l2_to_start: float = 0.0,
) -> float:
    torch.manual_seed(seed)
    values, labels = load_digits(return_X_y=True)
    images, digits = torch.tensor(values / 8 - 1, dtype=torch.float32), torch.tensor(labels)
    encoder = pretrained(images[digits < 5], digits[digits < 5], known)
    images, digits = images[digits >= 5], digits[digits >= 5] - 5
    train_x, train_y, test_x, test_y = images[:500], digits[:500], images[500:], digits[500:]

    model = Model(encoder, adapted, wiring)
    if frozen:
        encoder.requires_grad_(False)
    parts = {
        "forgotten-encoder": [model.adapter, *model.middle, model.head],
        "forgotten-head": [encoder, *model.middle],
    }
    trained = [p for part in parts.get(wiring, [model]) for p in part.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=lr)
    if wiring == "stale-head":  # a fresh head after the optimizer was made
        model.head = nn.Linear(6, 5)
    elif wiring == "copied-encoder":
        model.encoder = pretrained(images, digits, 0)
    start = [p.detach().clone() for p in model.parameters()]

    with record(model=model, optimizer=optimizer, loss_fn=F.cross_entropy) as recorder:
        for index in range(steps):
            if index == thaws_at:
                encoder.requires_grad_(True)
                optimizer.add_param_group({"params": list(encoder.parameters()), "lr": lr / 5})
            chosen = torch.randint(len(train_x), (batch,))
            optimizer.zero_grad(set_to_none=True)
            with recorder.step() as step:
                logits = model(images=train_x[chosen])
                loss = F.cross_entropy(input=logits, target=train_y[chosen])
                if l2_to_start:
                    moved = zip(model.parameters(), start, strict=True)
                    loss = loss + l2_to_start * sum((p - s).square().sum() for p, s in moved)
                step.backward(loss)
            optimizer.step()

    with torch.no_grad():
        return -float(F.cross_entropy(model(test_x), test_y))


PROGRAM = Program(
    "digits-finetune",
    train,
    (
        Variant("whole"),
        Variant("frozen-encoder", {"frozen": True, "steps": 600}),
        Variant("adapter", {"frozen": True, "adapted": True, "steps": 500}),
        Variant("thawed", {"frozen": True, "thaws_at": 200}),
        Variant("pulled-to-start", {"l2_to_start": 1e-3}),
        Variant("detached", {"wiring": "detached", "known": 0}, "wiring", "whole"),
        Variant("in-a-list", {"wiring": "in-a-list", "known": 5}, "wiring", "whole"),
        Variant("rewrapped", {"wiring": "rewrapped"}, "wiring", "whole"),
        Variant("forgotten-encoder", {"wiring": "forgotten-encoder", "known": 0}, "wiring", "whole"),
        Variant("forgotten-head", {"wiring": "forgotten-head"}, "wiring", "whole"),
        Variant("stale-head", {"wiring": "stale-head"}, "wiring", "whole"),
        Variant("copied-encoder", {"wiring": "copied-encoder"}, "wiring", "whole"),
        Variant("rate-x100", {"lr": 0.2}, "rate-too-large", "whole"),
        Variant("pulled-x1000", {"l2_to_start": 1.0}, "too-much-regularisation", "pulled-to-start"),
    ),
)
