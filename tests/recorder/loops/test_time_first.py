"""Models in which time comes before the samples: never a number of the wrong samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.loops import Case, fly_both
from support.trainings import read
from support.truth import check_null, check_values, reasons
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


class Classifier(nn.Module):
    """Takes (time, samples, 4)."""

    def __init__(self, flat: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.block = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0)
        self.head, self.flat = nn.Linear(4, 3), flat

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(torch.tanh(self.first(x)))
        if self.flat:
            return self.head(x.flatten(0, 1)).reshape(*x.shape[:2], 3).mean(0)
        return self.head(x).mean(0)


def classify(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def each(model: nn.Module, batch: Any) -> Any:
    for i in range(len(batch[1])):
        yield classify(model, (batch[0][:, i : i + 1], batch[1][i : i + 1]))


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(("time", "n"), [(5, 6), (6, 6), (6, 3), (3, 6)])
def test_values_are_those_of_the_samples_whatever_their_number(time: int, n: int, flat: bool, tmp_path: Path) -> None:
    sizes = iter([n] * 4)
    case = Case(
        lambda: Classifier(flat).double(),
        lambda: (torch.randn(time, m := next(sizes, n), 4, dtype=torch.float64), torch.randint(3, (m,))),
        classify,
        each,
        steps=2,
    )
    log = fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_values(tmp_path / "run", log)


def test_a_batch_of_as_many_samples_as_times_is_left_out(tmp_path: Path) -> None:
    """Once the plan was made of a batch that left no doubt."""
    sizes = iter([6, 5, 6] * 2)
    case = Case(
        lambda: Classifier().double(),
        lambda: (torch.randn(5, m := next(sizes), 4, dtype=torch.float64), torch.randint(3, (m,))),
        classify,
        each,
    )
    log = fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    steps = read(tmp_path / "run", "steps")
    assert [value is None for value in steps["grad_var"]] == [False, True, False]
    assert any("is not certain" in reason for reason in reasons(tmp_path / "run"))
    check_values(tmp_path / "run", log, only=[0])


class Language(nn.Module):
    """Takes tokens (time, samples), and gives a prediction for each of them, flattened."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(7, 4), nn.LSTM(4, 4), nn.Linear(4, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.embedding(x))[0]).flatten(0, 1)


def test_flattened_token_losses_of_a_model_that_runs_over_time(tmp_path: Path) -> None:
    case = Case(
        lambda: Language().double(),
        lambda: torch.randint(7, (4, 6)),
        lambda model, x: F.cross_entropy(model(x), x.roll(1, 0).flatten()),
    )
    fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_null(tmp_path / "run", "the number of samples is unknown")
    assert read(tmp_path / "run", "steps")["batch_size"].is_null().all()
    assert read(tmp_path / "run", "steps")["loss_var"].is_null().all()


def test_the_same_losses_one_for_each_sample(tmp_path: Path) -> None:
    def losses(model: nn.Module, x: Tensor) -> Tensor:
        return F.cross_entropy(model(x), x.roll(1, 0).flatten(), reduction="none").reshape(x.shape).mean(0)

    case = Case(
        lambda: Language().double(),
        lambda: torch.randint(7, (4, 6)),
        losses,
        lambda model, x: (losses(model, x[:, i : i + 1]).mean() for i in range(x.shape[1])),
    )
    log = fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_values(tmp_path / "run", log)


class PackedHead(nn.Module):
    """A layer on packed data, sorted by time; as many entries as samples, times two."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.head = nn.Linear(4, 4), nn.GRU(4, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(torch.tanh(self.first(x)), torch.tensor([3, 3, 2, 2, 1, 1][: len(x)]), True)
        out = self.layer(packed)[0]
        scores = self.head(out.data)
        found, begin = torch.zeros(len(x), 3, dtype=x.dtype), 0
        for size in out.batch_sizes.tolist():
            found = found + F.pad(scores[begin : begin + size], (0, 0, 0, len(x) - size))
            begin += size
        return found


def test_a_layer_on_packed_data(tmp_path: Path) -> None:
    case = Case(
        lambda: PackedHead().double(),
        lambda: (torch.randn(6, 3, 4, dtype=torch.float64), torch.randint(3, (6,))),
        classify,
        lambda model, batch: F.cross_entropy(model(batch[0]), batch[1], reduction="none"),
    )
    log = fly_both(tmp_path / "run", case.model, lambda net: case.optimizer(list(net.parameters())), case.train)
    check_values(tmp_path / "run", log)
