"""Models with every kind of layer, their data and losses, and what cannot be measured of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from support.loops import Case, one_by_one
from support.models import Residual, Scaled, Tokens
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

N = 6
"""Samples of a batch."""


def classify(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def numbers(*shape: int, n: int = N, classes: int = 3) -> Callable[[], Any]:
    """Batches of random numbers of this shape a sample, and a class for each."""
    return lambda: (torch.randn(n, *shape, dtype=torch.float64), torch.randint(classes, (n,)))


def tokens(length: int, count: int = 7, classes: int = 3, n: int = N) -> Callable[[], Any]:
    return lambda: (torch.randint(count, (n, length)), torch.randint(classes, (n,)))


def case(make: Callable[[], nn.Module], batch: Callable[[], Any], **options: Any) -> Case:
    return Case(lambda: make().double(), batch, **{"loss": classify, **options})


def with_head(*layers: nn.Module, features: int = 4) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 3))


class Last(nn.Module):
    """The first of what a layer returns, at the last time."""

    def __init__(self, layer: nn.Module, features: int, time: int = 1) -> None:
        super().__init__()
        self.layer, self.head, self.time = layer, nn.Linear(features, 3), time

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.time else x.transpose(0, 1)
        return self.head(self.layer(x)[0].select(self.time, -1))


class State(nn.Module):
    """The last state of a recurrent layer, or everything that it returns."""

    def __init__(self, layer: nn.Module, features: int, everything: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.everything = layer, nn.Linear(features, 3), everything

    def forward(self, x: Tensor) -> Tensor:
        out, state = self.layer(x)
        if self.everything:
            return self.head(out[:, 0] + state[0][-1] * state[1][-1])
        return self.head((state if isinstance(state, Tensor) else state[0])[-1])


class Cells(nn.Module):
    """A loop of the user's own over time."""

    def __init__(self) -> None:
        super().__init__()
        self.long, self.gated, self.head = nn.LSTMCell(4, 3), nn.GRUCell(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        state, hidden = None, None
        for step in x.unbind(1):
            state = self.long(step, state)
            hidden = self.gated(state[0], hidden)
        return self.head(hidden)


class Attending(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True, **options), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Paired(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.pair = nn.Linear(4, 3), nn.Bilinear(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.pair(torch.tanh(self.first(x)), x)


class Added(nn.Module):
    """In-place activation, and in-place addition of what went around a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.second, self.head = nn.Conv2d(4, 4, 3, padding=1, groups=2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu_(self.norm(self.first(x)))
        out = self.second(x)
        out += x
        return self.head(F.relu(out, inplace=True).mean((2, 3)))


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.frozen.requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(torch.tanh(self.used(x)))


class Containers(nn.Module):
    """Modules in dictionaries and lists of lists, parameters in a list and a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]), "b": nn.Linear(4, 3)})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.tensor(0.5))])
        self.named = nn.ParameterDict({"shift": nn.Parameter(torch.zeros(4))})

    def forward(self, x: Tensor) -> Tensor:
        for layer, scale in zip(self.parts["a"], self.scales, strict=True):
            x = torch.tanh(layer(x) * scale + self.named["shift"])
        return self.parts["b"](x)


class Lowrank(nn.Linear):
    """A layer of the user's own that inherits from one of torch's, with another forward pass and one more parameter."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.extra = nn.Parameter(torch.randn(3, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight + self.extra @ self.extra.T @ self.weight, self.bias)


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(Doubling.apply(self.first(x))))


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first, self.middle, self.head = (
            nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Linear(4, 3),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        return self.head(checkpoint(self.middle, x, use_reentrant=self.reentrant))


class Bags(nn.Module):
    def __init__(self, weighted: bool = False) -> None:
        super().__init__()
        self.bag, self.head, self.weighted = nn.EmbeddingBag(7, 3, mode="sum"), nn.Linear(3, 3), weighted

    def forward(self, x: Tensor) -> Tensor:
        if self.weighted:
            return self.head(self.bag(x, per_sample_weights=torch.full(x.shape, 0.5, dtype=self.head.weight.dtype)))
        return self.head(self.bag(x.flatten(), torch.arange(0, x.numel(), 2)))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        lengths = [5, 4, 3, 3, 2, 1][: len(x)]  # they add up to a multiple of the number of samples
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True)
        return self.head(pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0].mean(1))


def transformer(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def unreduced(model: nn.Module, batch: Any) -> Iterator[Tensor]:
    """The losses of all samples of one pass: with its dropout masks, or where lengths belong to a batch."""
    yield from F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def without_reentering(model: Any, batch: Any) -> Iterable[Tensor]:
    """Reentrant checkpoints refuse to be asked for some gradients only."""
    model.reentrant = False
    return one_by_one(classify, batch)(model)


ONCE = "differentiated twice"
CASES: dict[str, Case] = {
    "linear": case(lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)), numbers(4)),
    "linear over a sequence": case(lambda: with_head(nn.Linear(4, 2), nn.GELU(), features=10), numbers(5, 4)),
    "bilinear": case(Paired, numbers(4)),
    "conv 1d": case(
        lambda: with_head(nn.Conv1d(2, 4, 3, groups=2, padding=2, dilation=2), nn.SiLU(), features=20), numbers(2, 5)
    ),
    "conv 2d": case(
        lambda: with_head(
            nn.Conv2d(2, 4, 3, stride=2, padding=1, padding_mode="reflect"),
            nn.Tanh(),
            nn.Conv2d(4, 2, (1, 2), padding="same", bias=False),
            nn.ReLU(inplace=True),
            features=8,
        ),
        numbers(2, 4, 4),
    ),
    "conv 3d": case(
        lambda: with_head(nn.Conv3d(2, 2, 2, padding=1, padding_mode="replicate"), nn.Tanh(), features=54),
        numbers(2, 2, 2, 2),
    ),
    "depthwise and circular": case(
        lambda: with_head(nn.Conv1d(4, 4, 3, groups=4, padding=1, padding_mode="circular"), nn.Tanh(), features=20),
        numbers(4, 5),
    ),
    "transposed conv 1d": case(
        lambda: with_head(nn.ConvTranspose1d(2, 2, 3, stride=2, output_padding=1), nn.Tanh(), features=16),
        numbers(2, 3),
    ),
    "transposed conv 2d": case(
        lambda: with_head(nn.ConvTranspose2d(2, 4, 2, groups=2, dilation=2), nn.Tanh(), features=64), numbers(2, 2, 2)
    ),
    "transposed conv 3d": case(
        lambda: with_head(nn.ConvTranspose3d(1, 2, 2, padding=1, bias=False), nn.Tanh(), features=2),
        numbers(1, 2, 2, 2),
    ),
    "layer norm": case(lambda: with_head(nn.Linear(4, 4), nn.LayerNorm((5, 4)), nn.Tanh(), features=20), numbers(5, 4)),
    "group norm": case(
        lambda: with_head(nn.Conv1d(2, 4, 1), nn.GroupNorm(2, 4), nn.Tanh(), features=20), numbers(2, 5)
    ),
    "rms norm": case(lambda: nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4), nn.Tanh(), nn.Linear(4, 3)), numbers(4)),
    "instance norm": case(
        lambda: with_head(nn.Conv1d(2, 2, 1, bias=False), nn.InstanceNorm1d(2, affine=True), nn.Tanh(), features=10),
        numbers(2, 5),
    ),
    "local response norm and prelu": case(
        lambda: with_head(nn.Conv1d(2, 4, 1), nn.LocalResponseNorm(2), nn.PReLU(4), features=20), numbers(2, 5)
    ),
    "batch norm in evaluation mode": case(
        lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5).eval(), nn.Tanh(), nn.Linear(5, 3)), numbers(4)
    ),
    "embedding": case(lambda: with_head(nn.Embedding(7, 2, padding_idx=0), features=6), tokens(3)),
    "embedding of a single token": case(
        lambda: nn.Sequential(nn.Embedding(7, 2, padding_idx=0), nn.Tanh(), nn.Linear(2, 3)),
        lambda: (torch.randint(7, (N,)), torch.randint(3, (N,))),
    ),
    "embedding with sparse gradients": case(
        lambda: with_head(nn.Embedding(7, 2, sparse=True), features=6), tokens(3), no_curvature=ONCE
    ),
    "embedding of a largest norm": case(lambda: with_head(nn.Embedding(7, 2, max_norm=1.0), features=6), tokens(3)),
    "embedding scaled by frequency": case(
        lambda: with_head(nn.Embedding(7, 2, scale_grad_by_freq=True), features=6),
        tokens(3),
        null="no individual gradients for 0.weight",
    ),
    "embedding bag": case(
        lambda: nn.Sequential(nn.EmbeddingBag(7, 3, padding_idx=1), nn.Tanh(), nn.Linear(3, 3)),
        tokens(4),
        no_curvature=ONCE,
    ),
    "embedding bag of sums with sparse gradients": case(
        lambda: nn.Sequential(nn.EmbeddingBag(7, 3, mode="sum", sparse=True), nn.Linear(3, 3)),
        tokens(4),
        no_curvature=ONCE,
    ),
    "embedding bag of the largest": case(
        lambda: nn.Sequential(nn.EmbeddingBag(7, 3, mode="max"), nn.Linear(3, 3)),
        tokens(4),
        null="no individual gradients for 0.weight",
        no_curvature=ONCE,
    ),
    "embedding bag with offsets": case(
        Bags,
        lambda: (torch.randint(7, (N, 2)), torch.randint(3, (N,))),
        null="no individual gradients for bag.weight",
        no_curvature=ONCE,
    ),
    "embedding bag with weights": case(
        lambda: Bags(weighted=True),
        lambda: (torch.randint(7, (N, 2)), torch.randint(3, (N,))),
        null="no individual gradients for bag.weight",
        no_curvature=ONCE,
    ),
    "lstm": case(lambda: Last(nn.LSTM(4, 3, batch_first=True), 3), numbers(5, 4)),
    "lstm, two layers, both ways": case(
        lambda: Last(nn.LSTM(2, 2, num_layers=2, bidirectional=True, batch_first=True), 4), numbers(3, 2)
    ),
    "lstm, time first, projected": case(lambda: Last(nn.LSTM(4, 3, proj_size=2), 2, time=0), numbers(5, 4)),
    "gru": case(lambda: Last(nn.GRU(4, 3, batch_first=True), 3), numbers(5, 4)),
    "gru, time first, two layers, both ways": case(
        lambda: Last(nn.GRU(2, 2, num_layers=2, bidirectional=True), 4, time=0), numbers(3, 2)
    ),
    "rnn": case(lambda: Last(nn.RNN(4, 3, batch_first=True, bias=False), 3), numbers(5, 4)),
    "lstm, last state": case(lambda: State(nn.LSTM(4, 3, num_layers=2, batch_first=True), 3), numbers(5, 4)),
    "lstm, last cell and outputs": case(
        lambda: State(nn.LSTM(4, 3, batch_first=True), 3, everything=True), numbers(5, 4)
    ),
    "gru, last state": case(lambda: State(nn.GRU(4, 3, num_layers=2, batch_first=True), 3), numbers(5, 4)),
    "cells": case(Cells, numbers(3, 4)),
    "packed sequences": case(Packed, numbers(5, 4), each=unreduced),
    "attention": case(Attending, numbers(5, 4), no_curvature=ONCE),
    "attention with biases of keys and values": case(
        lambda: Attending(add_bias_kv=True, bias=False), numbers(5, 4), no_curvature=ONCE
    ),
    "transformer": case(
        lambda: with_head(transformer(batch_first=True), features=20), numbers(5, 4), no_curvature=ONCE, tolerance=1e-8
    ),
    "transformer, norm first": case(
        lambda: with_head(transformer(batch_first=True, norm_first=True, activation="gelu"), features=20),
        numbers(5, 4),
        no_curvature=ONCE,
    ),
    "everything for tokens, tied": case(
        Tokens,
        lambda: (torch.randint(11, (N, 5)), torch.randint(11, (N, 5))),
        no_curvature=ONCE,
    ),
    "residual in place": case(
        lambda: nn.Sequential(nn.Linear(4, 6), Residual(), Residual(), nn.Linear(6, 3)), numbers(4)
    ),
    "convolutions, added in place": case(Added, numbers(2, 3, 3)),
    "called twice, a scale of its own": case(Scaled, numbers(6)),
    "unused and frozen": case(Unused, numbers(4)),
    "containers": case(Containers, numbers(4)),
    "inherited": case(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Lowrank()), numbers(4)),
    "weight norm": case(
        lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 3)), numbers(4)
    ),
    "spectral norm, moving": case(
        lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 3)),
        numbers(4),
        each=unreduced,
    ),
    "orthogonal": case(
        lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 3)),
        numbers(4),
    ),
    "a function of its own": case(Custom, numbers(4), no_curvature="of its own"),
    "checkpointed": case(lambda: Checkpointed(reentrant=False), numbers(4)),
    "checkpointed, reentrant": case(
        lambda: Checkpointed(reentrant=True), numbers(4), each=without_reentering, no_curvature=ONCE
    ),
    "dropout": case(
        lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.ReLU(inplace=True), nn.Linear(8, 3)),
        numbers(4),
        each=unreduced,
    ),
    "dropout between recurrent layers": case(
        lambda: Last(nn.LSTM(4, 3, num_layers=2, dropout=0.5, batch_first=True), 3),
        numbers(5, 4),
        each=unreduced,
    ),
    "dropout in a transformer": case(
        lambda: with_head(nn.TransformerEncoderLayer(4, 2, 6, dropout=0.3, batch_first=True), features=20),
        numbers(5, 4),
        each=unreduced,
    ),
    "channels last": case(
        lambda: with_head(nn.Conv2d(2, 4, 2), nn.Tanh(), features=16).to(memory_format=torch.channels_last),
        lambda: (
            torch.randn(N, 2, 3, 3, dtype=torch.float64).to(memory_format=torch.channels_last),
            torch.randint(3, (N,)),
        ),
    ),
    "a batch of one": case(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)), numbers(4, n=1)),
}
