"""Handwritten digits, deep and narrow networks of many kinds. Each epoch shuffles indices; losses come unreduced."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits
from torch import Tensor, nn
from zoo.program import Program, Record, Variant

WIDTH = 32


class Block(nn.Module):
    """A layer with its activation, with or without normalisation and a way around it."""

    def __init__(self, activation: nn.Module, norm: bool, residual: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if norm else nn.Identity()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.activation = activation
        self.scale = nn.Parameter(torch.zeros(1)) if residual else None  # each block starts as the identity

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.activation(self.linear(self.norm(x)))
        return out if self.scale is None else x + self.scale * out


ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU, "selu": nn.SELU}


def initialise(model: nn.Module, init: str, gain: float, bias: float) -> None:
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            if init == "zero":
                nn.init.zeros_(layer.weight)
            elif init == "constant":
                nn.init.constant_(layer.weight, 0.05)
            elif init == "he":
                nn.init.kaiming_normal_(layer.weight)
            elif init == "xavier":
                nn.init.xavier_normal_(layer.weight)
            elif init == "lecun":
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            elif init == "unit":
                nn.init.normal_(layer.weight)
            with torch.no_grad():
                layer.weight.mul_(gain)
            nn.init.constant_(layer.bias, bias)


def train(
    record: Record,
    seed: int,
    activation: str = "relu",
    depth: int = 5,
    init: str = "he",
    gain: float = 1.0,
    bias: float = 0.0,
    norm: bool = False,
    residual: bool = False,
    rate: float = 0.03,
    momentum: float = 0.9,
    adam: bool = False,
    first_rate: float | None = None,
    epochs: int = 12,
) -> float:
    torch.manual_seed(seed)
    values, labels = load_digits(return_X_y=True)
    x = torch.tensor(values / 16 * 4 - 1, dtype=torch.float32)
    y = torch.tensor(labels)
    split = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train_split, test_split = split[:1200], split[1200:]

    blocks = [Block(ACTIVATIONS[activation](), norm, residual) for _ in range(depth)]
    model = nn.Sequential(nn.Linear(64, WIDTH), ACTIVATIONS[activation](), *blocks, nn.Linear(WIDTH, 10))
    initialise(model, init, gain, bias)
    groups: list[dict[str, Any]] = [
        {"params": model[0].parameters(), "lr": first_rate or rate},
        {"params": model[1:].parameters()},
    ]
    if adam:
        optimizer: torch.optim.Optimizer = torch.optim.Adam(groups, lr=rate)
    else:
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=momentum)

    with record(model, optimizer, nn.CrossEntropyLoss(reduction="none")) as rec:
        for epoch in range(epochs):
            for batch in train_split[torch.randperm(1200)].split(40):
                with rec.step() as step:
                    losses = F.cross_entropy(model(x[batch]), y[batch], reduction="none")
                    model.zero_grad()
                    step.backward(losses)
                optimizer.step()
            with torch.no_grad(), rec.evaluate("test"):
                predicted = model(x[test_split]).argmax(1)
            rec.log("test", epoch=epoch, accuracy=(predicted == y[test_split]).float().mean())
    return float((predicted == y[test_split]).double().mean())


PROGRAM = Program(
    "deep-mlp",
    train,
    (
        Variant("relu"),
        Variant("relu-8", {"depth": 8, "rate": 0.005, "epochs": 16}),
        Variant("tanh", {"activation": "tanh", "init": "xavier"}),
        Variant(
            "gelu-norm", {"activation": "gelu", "norm": True, "depth": 5, "adam": True, "rate": 3e-3, "epochs": 20}
        ),
        Variant("rezero", {"residual": True, "depth": 12}),
        Variant("selu-deep", {"activation": "selu", "init": "lecun", "depth": 10, "rate": 0.01}),
        Variant("sigmoid-shallow", {"activation": "sigmoid", "depth": 0, "init": "xavier", "rate": 0.1}),
        Variant("sparse", {"bias": -0.6, "depth": 1, "gain": 1.2, "rate": 0.02}),
        Variant("last-layers-faster", {"first_rate": 0.01}),
        Variant("sigmoid-6", {"activation": "sigmoid", "init": "xavier", "depth": 5}, "vanishing-gradients", "relu"),
        Variant("sigmoid-9", {"activation": "sigmoid", "init": "xavier", "depth": 8}, "vanishing-gradients", "relu-8"),
        Variant(
            "sigmoid-9-adam",
            {"activation": "sigmoid", "init": "xavier", "depth": 8, "adam": True, "rate": 3e-3, "epochs": 20},
            "vanishing-gradients",
            "gelu-norm",
        ),
        Variant("small-weights", {"gain": 0.25, "depth": 8}, "vanishing-gradients", "relu-8"),
        Variant(
            "unit-weights",
            {"init": "unit", "activation": "tanh", "rate": 1e-3},
            "init-too-large",
            "tanh",
            also=("saturated-units",),
        ),
        Variant("he-x3", {"gain": 3.0}, "init-too-large", "relu"),
        Variant("he-x10", {"gain": 10.0}, "init-too-large", "relu"),
        Variant(
            "linear-gain",
            {"init": "unit", "activation": "relu", "rate": 1e-3},
            "exploding-gradients",
            "relu",
            also=("init-too-large",),
        ),
        Variant(
            "saturated",
            {"activation": "tanh", "init": "xavier", "gain": 15.0, "depth": 2},
            "saturated-units",
            "tanh",
            also=("init-too-large",),
        ),
        Variant(
            "saturated-deep",
            {"activation": "tanh", "init": "xavier", "gain": 6.0},
            "saturated-units",
            "tanh",
            also=("init-too-large",),
        ),
        Variant("negative-bias", {"bias": -3.0, "depth": 1}, "dead-units", "sparse"),
        Variant("very-negative-bias", {"bias": -12.0, "depth": 1}, "dead-units", "sparse"),
        Variant("all-zero", {"init": "zero"}, "init-zero-or-symmetric", "relu"),
        Variant("constant", {"init": "constant", "depth": 2}, "init-zero-or-symmetric", "relu"),
        Variant(
            "constant-adam",
            {"init": "constant", "depth": 1, "adam": True, "rate": 2e-3},
            "init-zero-or-symmetric",
            "relu",
        ),
        Variant(
            "first-layer-x300", {"first_rate": 9.0}, "update-outlier", "last-layers-faster", also=("rate-too-large",)
        ),
        Variant(
            "first-layer-x30", {"first_rate": 0.9}, "update-outlier", "last-layers-faster", also=("rate-too-large",)
        ),
        Variant("first-layer-over-3000", {"first_rate": 1e-5}, "update-outlier", "last-layers-faster"),
        Variant("rate-x30", {"rate": 1.0}, "rate-too-large", "relu"),
    ),
)
