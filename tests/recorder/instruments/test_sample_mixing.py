"""Sample mixing, against what batches of other samples say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor, nn

from analyzer.run import open_run
from recorder import Recorder

SAMPLES, TIME, WIDTH = 6, 5, 8


class Composed(nn.Module):
    """A layer, then what is given, then a head over the last position."""

    def __init__(self, middle: nn.Module, use: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.embed, self.middle, self.head = nn.Linear(3, WIDTH), middle, nn.Linear(WIDTH, 2)
        self.use = use

    def forward(self, x: Tensor) -> Tensor:
        head: Tensor = self.head(self.use(self.middle, self.embed(x)))
        return head


def attention(batch_first: bool) -> nn.Module:
    return nn.MultiheadAttention(WIDTH, 2, batch_first=batch_first)


def attend(module: nn.Module, x: Tensor) -> Tensor:
    out: Tensor = module(x, x, x, need_weights=False)[0]
    return out[:, -1]


def recur(module: nn.Module, x: Tensor) -> Tensor:
    out: Tensor = module(x)[0]
    return out[:, -1]


def time_first(module: nn.Module, x: Tensor) -> Tensor:
    out: Tensor = module(x.transpose(0, 1))[0]
    return out[-1]


MODELS: dict[str, tuple[nn.Module, bool]] = {
    "attention": (Composed(attention(True), attend), False),
    "attention, batch_first forgotten": (Composed(attention(False), attend), True),
    "recurrence": (Composed(nn.GRU(WIDTH, WIDTH, batch_first=True), recur), False),
    "recurrence, batch_first forgotten": (Composed(nn.GRU(WIDTH, WIDTH), recur), True),
    "recurrence, transposed": (Composed(nn.GRU(WIDTH, WIDTH), time_first), False),
    "mean over time": (Composed(nn.Identity(), lambda _, x: x.mean(1)), False),
    "mean over the batch": (Composed(nn.Identity(), lambda _, x: (x - x.mean(0))[:, -1]), True),
    "softmax over the batch": (Composed(nn.Softmax(dim=0), lambda m, x: m(x)[:, -1]), True),
    "layer norm": (Composed(nn.LayerNorm(WIDTH), lambda m, x: m(x)[:, -1]), False),
    "view in place of a transpose": (
        Composed(nn.Identity(), lambda _, x: x.reshape(WIDTH, SAMPLES, TIME).permute(1, 2, 0)[:, -1]),
        True,
    ),
}


def recorded(where: Path, model: nn.Module, inputs: tuple[Tensor, ...], preset: str = "basic") -> pl.Series:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(where, model, optimizer, preset=preset, strict=True) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(nn.functional.cross_entropy(model(*inputs), torch.zeros(SAMPLES, dtype=torch.long)))
            optimizer.step()
    return open_run(where).frame("steps", "mixing_share")["mixing_share"]


@pytest.mark.parametrize("name", MODELS)
def test_it_is_found_where_the_output_alone_differs(tmp_path: Path, name: str) -> None:
    model, mixes = MODELS[name]
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, TIME, 3)
    other = torch.cat([torch.randn(SAMPLES - 1, TIME, 3), x[-1:]])
    assert (not torch.allclose(model(x)[-1], model(other)[-1], atol=1e-6)) is mixes  # by definition
    share = recorded(tmp_path / "run", model, (x,))
    assert share.null_count() == len(share) - 1  # it looks once
    assert (float(share.drop_nulls()[0]) > 1e-3) is mixes


@pytest.mark.parametrize("given", ["matrix", "sparse matrix", "edges", "buffer"])
def test_neighbours_are_no_mistake(tmp_path: Path, given: str) -> None:
    adjacency = torch.eye(SAMPLES) + torch.ones(SAMPLES, SAMPLES) / SAMPLES

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, 2)
            if given == "buffer":
                self.register_buffer("adjacency", adjacency)

        def forward(self, x: Tensor, *_: Any) -> Tensor:
            head: Tensor = self.head(adjacency @ self.hidden(x).relu())
            return head

    extra = {
        "matrix": (adjacency,),
        "sparse matrix": (adjacency.to_sparse(),),
        "edges": (torch.zeros(2, 9, dtype=torch.long),),
        "buffer": (),
    }[given]
    share = recorded(tmp_path / "run", Graph(), (torch.randn(SAMPLES, 3), *extra))
    assert share.null_count() == len(share)


def test_batch_norms_are_left_alone(tmp_path: Path) -> None:
    model = Composed(nn.BatchNorm1d(TIME), lambda m, x: m(x)[:, -1])
    share = recorded(tmp_path / "run", model, (torch.randn(SAMPLES, TIME, 3),))
    assert share.null_count() == len(share)


@pytest.mark.parametrize("preset", ["basic", "full"])
def test_hooks_of_the_users_are_not_called_for_it(tmp_path: Path, preset: str) -> None:
    model = Composed(nn.Identity(), lambda _, x: x.mean(1))
    calls: list[int] = []
    model.embed.register_full_backward_hook(lambda *_: calls.append(1))
    share = recorded(tmp_path / "run", model, (torch.randn(SAMPLES, TIME, 3),), preset)
    assert len(calls) == 4
    assert share.null_count() == len(share)
