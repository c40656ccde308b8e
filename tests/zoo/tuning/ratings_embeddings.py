"""Ratings of items by users, a factorisation: embeddings with sparse gradients, most rows untouched at most steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

USERS, ITEMS, FACTORS = 120, 80, 6


def ratings(count: int, noise: float = 0.3) -> tuple[Tensor, Tensor, Tensor]:
    fixed = torch.Generator().manual_seed(0)
    taste, trait = torch.randn(USERS, 3, generator=fixed), torch.randn(ITEMS, 3, generator=fixed)
    popularity = torch.rand(ITEMS, generator=fixed) ** 3 + 0.02
    users = torch.randint(USERS, (count,), generator=fixed)
    items = torch.multinomial(popularity, count, replacement=True, generator=fixed)
    values = (taste[users] * trait[items]).sum(dim=1) / 2 + noise * torch.randn(count, generator=fixed)
    return users, items, values


class Factorisation(nn.Module):
    def __init__(self, sparse: bool, factors: int) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, factors, sparse=sparse)
        self.items = nn.Embedding(ITEMS, factors, sparse=sparse)
        self.bias = nn.Embedding(ITEMS, 1, sparse=sparse)
        for embedding in (self.users, self.items):
            nn.init.normal_(embedding.weight, std=0.3)
        nn.init.zeros_(self.bias.weight)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        predicted: Tensor = (self.users(users) * self.items(items)).sum(dim=1) + self.bias(items).squeeze(1)
        return predicted


def train(
    record: Record,
    seed: int,
    lr: float = 0.02,
    method: str = "sparse-adam",
    factors: int = FACTORS,
    epochs: int = 10,
    scale: float = 1.0,
    offset: float = 0.0,
    samples: int = 6000,
    items_shuffled: bool = False,
    decay: float = 0.0,
) -> float:
    torch.manual_seed(seed)
    users, items, values = ratings(8000)
    values = values * scale + offset
    train_set, test_set = slice(0, samples), slice(6000, None)
    if items_shuffled:
        items[train_set] = items[train_set][torch.randperm(samples)]
    model = Factorisation(method.startswith("sparse"), factors)
    optimizer: torch.optim.Optimizer
    if method == "sparse-adam":
        optimizer = torch.optim.SparseAdam(model.parameters(), lr=lr)
    elif method == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    loss_fn = nn.MSELoss()

    with record(model, optimizer, loss_fn) as recorder:
        for epoch in range(epochs):
            for chosen in torch.randperm(samples).split(150):
                optimizer.zero_grad()
                with recorder.step() as step:
                    step.backward(loss_fn(model(users[chosen], items[chosen]), values[chosen]))
                optimizer.step()  # type: ignore[no-untyped-call]
            with recorder.evaluate("valid"), torch.no_grad():
                error = loss_fn(model(users[test_set], items[test_set]), values[test_set])
            recorder.log("valid", epoch=epoch, loss=error, rmse=error.sqrt())
    return -float(error) / scale**2


PROGRAM = Program(
    "ratings-embeddings",
    train,
    (
        Variant("sparse-adam"),
        Variant("adam", {"method": "adam", "lr": 0.01}),
        Variant("sparse-sgd", {"method": "sparse-sgd", "lr": 4.0, "epochs": 15}),
        Variant("stars-times-20", {"scale": 20.0, "offset": 60.0}, "unnormalised-targets", "sparse-adam"),
        Variant(
            "stars-times-20-sgd",
            {"scale": 20.0, "offset": 60.0, "method": "sparse-sgd", "lr": 4.0},
            "unnormalised-targets",
            "sparse-sgd",
        ),
        Variant("few-ratings", {"samples": 600, "epochs": 100, "factors": 24}, "overfitting", "sparse-adam"),
        Variant("many-factors", {"factors": 60, "epochs": 30, "lr": 0.03}, "overfitting", "sparse-adam"),
        Variant("items-shuffled", {"items_shuffled": True}, "wrong-labels", "sparse-adam"),
        Variant("decay", {"method": "adam", "lr": 0.01, "decay": 0.5}, "too-much-regularisation", "adam"),
        Variant("rate-x50", {"lr": 1.0}, "rate-too-large", "sparse-adam"),
        Variant("rate-over-300", {"lr": 0.02 / 300}, "rate-too-small", "sparse-adam"),
    ),
)
