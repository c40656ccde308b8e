"""A graph network, full batch: papers cite papers of their own field, and a third of the fields is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo.program import Program, Variant

FIELDS, WORDS = 5, 24


def citation_graph(nodes: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Words (nodes, 24), normalised adjacency with self loops (nodes, nodes), fields (nodes,)."""
    fields = torch.randint(FIELDS, (nodes,), generator=generator)
    words = 0.6 * torch.randn(FIELDS, WORDS, generator=generator)[fields]
    words = words + torch.randn(nodes, WORDS, generator=generator)
    chance = torch.where(fields[:, None] == fields[None, :], 0.03, 0.006)
    upper = torch.triu(torch.rand(nodes, nodes, generator=generator) < chance, 1)
    edges = (upper | upper.T).float() + torch.eye(nodes)
    scale = edges.sum(1).rsqrt()
    return words, scale[:, None] * edges * scale, fields


class GCN(nn.Module):
    def __init__(self, inputs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Linear(inputs, hidden), nn.Linear(hidden, FIELDS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        x = F.relu(adjacency @ self.w1(self.dropout(x)))
        logits: Tensor = adjacency @ self.w2(self.dropout(x))
        return logits


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    hidden: int = 32,
    dropout: float = 0.5,
    weight_decay: float = 5e-4,
    method: str = "adam",
    rate: float = 1e-2,
    momentum: float = 0.0,
    epochs: int = 300,
    labelled: int = 120,
    leaked: bool = False,
    validate_in_eval: bool = True,
) -> float:
    """Minus the loss on the 120 papers kept for the test."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    words, adjacency, fields = citation_graph(360, torch.Generator().manual_seed(seed))
    if leaked:  # the table joined on paper id brought the field along
        words = torch.cat([words, F.one_hot(fields, FIELDS).float()], 1)
    known = torch.arange(360) < labelled
    valid = (torch.arange(360) >= 120) & (torch.arange(360) < 240)
    test = torch.arange(360) >= 240

    model = GCN(words.shape[1], hidden, dropout)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=weight_decay)
    if method == "gd":
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, weight_decay=weight_decay)
    loss_fn = nn.CrossEntropyLoss()
    with record(model, optimizer, loss_fn) as recorder:
        for epoch in range(epochs):
            model.train()
            optimizer.zero_grad()
            with recorder.step() as step:
                loss = loss_fn(model(words, adjacency)[known], fields[known])
                step.backward(loss)
            optimizer.step()
            if epoch % 5 == 0:
                if validate_in_eval:
                    model.eval()
                with recorder.evaluate("valid"), torch.no_grad():
                    logits = model(words, adjacency)
                accuracy = (logits.argmax(1) == fields)[valid].float().mean()
                recorder.log("valid", epoch=epoch, loss=loss_fn(logits[valid], fields[valid]), accuracy=accuracy)
    model.eval()
    with torch.no_grad():
        return -float(loss_fn(model(words, adjacency)[test], fields[test]))


PROGRAM = Program(
    "citations",
    train,
    (
        Variant("gcn"),
        Variant("gradient-descent", {"method": "gd", "rate": 1.0, "weight_decay": 3e-3}),
        Variant(
            "momentum-0.99",
            {"method": "gd", "rate": 1.0, "weight_decay": 3e-3, "momentum": 0.99},
            "rate-too-large",
            "gradient-descent",
        ),
        Variant(
            "gradient-descent-x10",
            {"method": "gd", "rate": 10.0, "weight_decay": 3e-3},
            "rate-too-large",
            "gradient-descent",
        ),
        Variant("few-labels", {"labelled": 60, "dropout": 0.6, "weight_decay": 1e-2}),
        Variant(
            "few-labels-unregularised",
            {"labelled": 60, "dropout": 0.0, "weight_decay": 0.0, "hidden": 128, "epochs": 400},
            "overfitting",
            "few-labels",
        ),
        Variant("leaked-field", {"leaked": True}, "leaked-answer", "gcn"),
        Variant("dropout-0.97", {"dropout": 0.97}, "too-much-regularisation", "gcn"),
        Variant("weight-decay-1", {"weight_decay": 1.0}, "too-much-regularisation", "gcn"),
        Variant("validated-in-train-mode", {"validate_in_eval": False}, "validation-in-train-mode", "gcn"),
    ),
)
