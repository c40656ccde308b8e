"""Ratings of films by matrix factorisation: embeddings with sparse gradients, biases with dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo.program import Program, Variant

USERS, FILMS, TASTES = 150, 120, 3


def ratings(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Users, films and stars around three and a half."""
    taste, style = torch.randn(USERS, TASTES, generator=generator), torch.randn(FILMS, TASTES, generator=generator)
    users = torch.randint(USERS, (count,), generator=generator)
    films = torch.randint(FILMS, (count,), generator=generator)
    liking = (taste[users] * style[films]).sum(1) / TASTES**0.5
    return users, films, 3.5 + 0.8 * liking + 0.4 * torch.randn(count, generator=generator)


class Factorisation(nn.Module):
    def __init__(self, rank: int, sparse: bool, spread: float) -> None:
        super().__init__()
        self.user, self.film = nn.Embedding(USERS, rank, sparse=sparse), nn.Embedding(FILMS, rank, sparse=sparse)
        for table in (self.user, self.film):
            nn.init.normal_(table.weight, std=spread) if spread else nn.init.zeros_(table.weight)
        self.user_bias, self.film_bias = nn.Embedding(USERS, 1), nn.Embedding(FILMS, 1)
        nn.init.zeros_(self.user_bias.weight)
        nn.init.zeros_(self.film_bias.weight)
        self.mean = nn.Parameter(torch.tensor(3.0))

    def forward(self, users: Tensor, films: Tensor) -> Tensor:
        biases = (self.user_bias(users) + self.film_bias(films)).squeeze(1)
        stars: Tensor = self.mean + biases + (self.user(users) * self.film(films)).sum(1)
        return stars


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    rank: int = 4,
    sparse: bool = True,
    spread: float = 0.1,
    rate: float = 1e-2,
    penalty: float = 0.0,
    forget_films: bool = False,
    epochs: int = 15,
    known: int = 6000,
) -> float:
    """Minus the mean squared error of 2000 ratings held out."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    users, films, stars = ratings(known + 2000, torch.Generator().manual_seed(seed))
    model = Factorisation(rank, sparse, spread)
    tables = [model.user.weight] if forget_films else [model.user.weight, model.film.weight]
    biases = [model.user_bias.weight, model.film_bias.weight, model.mean]
    if sparse:
        optimizers: list[torch.optim.Optimizer] = [
            torch.optim.SparseAdam(tables, lr=rate),
            torch.optim.Adam(biases, lr=rate),
        ]
    else:
        optimizers = [torch.optim.AdamW(tables + biases, lr=rate, weight_decay=penalty)]

    @torch.no_grad()
    def held_out_error() -> Tensor:
        return F.mse_loss(model(users[known:], films[known:]), stars[known:])

    with record(model, optimizers, F.mse_loss) as recorder:
        for epoch in range(epochs):
            for rows in torch.randperm(known).split(128):
                for optimizer in optimizers:
                    optimizer.zero_grad()
                with recorder.step() as step:
                    loss = F.mse_loss(model(users[rows], films[rows]), stars[rows])
                    step.backward(loss)
                    for optimizer in optimizers:
                        optimizer.step()
            with recorder.evaluate("valid"):
                error = held_out_error()
            recorder.log("valid", epoch=epoch, loss=error)
    return -held_out_error().item()


PROGRAM = Program(
    "ratings",
    train,
    (
        Variant("sparse"),
        Variant("dense-decay", {"sparse": False, "penalty": 0.02}),
        Variant("zero-tables", {"spread": 0.0}, "init-zero-or-symmetric", "sparse"),
        Variant("films-forgotten", {"forget_films": True}, "wiring", "sparse"),
        Variant("rank-64", {"rank": 64, "sparse": False, "epochs": 30}, "overfitting", "dense-decay"),
    ),
)
