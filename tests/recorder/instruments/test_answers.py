"""Whether the model is given the answer, against what changes when the inputs do, and against numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from analyzer.run import open_run
from recorder import Recorder
from recorder.instruments.answer_in_features import Sums

SAMPLES, TIME, WORDS, WIDTH = 6, 12, 17, 16


def causal(size: int, offset: int = 1) -> Tensor:
    return torch.full((size, size), -torch.inf).triu(offset)


class Language(nn.Module):
    """Foretells the next word at each position, by what is given."""

    def __init__(self, middle: nn.Module, use: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.embed, self.middle, self.head = nn.Embedding(WORDS, WIDTH), middle, nn.Linear(WIDTH, WORDS)
        self.use = use

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        head: Tensor = self.head(x + self.use(self.middle, x))
        return head


def attend(mask: Tensor | None) -> Callable[[nn.Module, Tensor], Tensor]:
    def use(module: nn.Module, x: Tensor) -> Tensor:
        out: Tensor = module(x, x, x, attn_mask=mask, need_weights=False)[0]
        return out

    return use


def scores(dim: int) -> Callable[[nn.Module, Tensor], Tensor]:
    def use(module: nn.Module, x: Tensor) -> Tensor:
        weights = (module(x) @ x.mT + causal(x.shape[1])).softmax(dim)
        return torch.nan_to_num(weights) @ x

    return use


def recur(module: nn.Module, x: Tensor) -> Tensor:
    out: Tensor = module(x)[0]
    return out[..., :WIDTH]


def recur_in_time(module: nn.Module, x: Tensor) -> Tensor:
    return recur(module, x.transpose(0, 1)).transpose(0, 1)


def convolve(left: int, right: int) -> Callable[[nn.Module, Tensor], Tensor]:
    def use(module: nn.Module, x: Tensor) -> Tensor:
        out: Tensor = module(functional.pad(x.mT, (left, right))).mT
        return out

    return use


def both_ways() -> nn.Module:
    return nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Tensor], Tensor], bool]] = {
    "mask": (lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True), attend(causal(TIME)), False),
    "no mask": (lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True), attend(None), True),
    "mask off by one": (lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True), attend(causal(TIME, 2)), True),
    "softmax over keys": (lambda: nn.Linear(WIDTH, WIDTH), scores(-1), False),
    "softmax over queries": (lambda: nn.Linear(WIDTH, WIDTH), scores(-2), True),
    "recurrence": (lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True), recur, False),
    "recurrence in time": (lambda: nn.GRU(WIDTH, WIDTH), recur_in_time, False),
    "recurrence both ways": (both_ways, lambda m, x: m(x)[0][..., WIDTH:], True),
    "convolution of the past": (lambda: nn.Conv1d(WIDTH, WIDTH, 3), convolve(2, 0), False),
    "convolution of both sides": (lambda: nn.Conv1d(WIDTH, WIDTH, 3), convolve(1, 1), True),
}
COLUMNS = ("sequence_here", "sequence_next", "sequence_later")


def recorded(
    where: Path, model: nn.Module, loss: Callable[[nn.Module], Tensor], names: tuple[str, ...] = COLUMNS
) -> pl.DataFrame:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(where, model, optimizer, preset="basic", strict=True) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(loss(model))
            optimizer.step()
    return open_run(where).frame("steps", *names).drop_nulls()


def flat(model: nn.Module, words: Tensor, shift: int) -> Tensor:
    return functional.cross_entropy(model(words[:, :-1]).reshape(-1, WORDS), words[:, shift : TIME + shift].reshape(-1))


def by_class(model: nn.Module, words: Tensor, shift: int) -> Tensor:
    return functional.cross_entropy(model(words[:, :-1]).transpose(1, 2), words[:, shift : TIME + shift])


def cut(model: nn.Module, words: Tensor, shift: int) -> Tensor:
    """Targets are cut out of what the model was given, as when it shifts them itself."""
    logits = model(words[:, :-1])[:, :-1]
    return functional.cross_entropy(logits.flatten(0, 1), words[:, shift : TIME - 1 + shift].flatten())


@pytest.mark.parametrize("call", [flat, by_class, cut])
@pytest.mark.parametrize("name", MODELS)
def test_what_comes_later_is_seen_where_the_outputs_before_it_change(
    tmp_path: Path, name: str, call: Callable[[nn.Module, Tensor, int], Tensor]
) -> None:
    middle, use, sees = MODELS[name]
    torch.manual_seed(0)
    model, words = Language(middle(), use), torch.randint(0, WORDS, (SAMPLES, TIME + 1))
    half = TIME // 2
    other = torch.cat([words[:, :half], torch.randint(0, WORDS, (SAMPLES, TIME - half))], 1)
    same = torch.allclose(model(words[:, :-1])[:, :half], model(other)[:, :half], atol=1e-6)
    assert same is not sees  # by definition
    (row,) = recorded(tmp_path / "run", model, lambda net: call(net, words, 1)).to_dicts()  # it looks once in four
    assert (row["sequence_next"], row["sequence_here"] < 0.5) == (1, True)
    assert (row["sequence_later"] > 0.01) is sees


def test_targets_that_are_not_shifted(tmp_path: Path) -> None:
    words = torch.randint(0, WORDS, (SAMPLES, TIME + 1))
    model = Language(nn.LSTM(WIDTH, WIDTH, batch_first=True), recur)
    (row,) = recorded(tmp_path / "run", model, lambda net: flat(net, words, 0)).to_dicts()
    assert (row["sequence_here"], row["sequence_next"] < 0.5, row["sequence_later"]) == (1, True, 0)


def test_ignored_targets_are_not_counted(tmp_path: Path) -> None:
    words = torch.randint(0, WORDS, (SAMPLES, TIME + 1))
    targets = torch.where(torch.rand(SAMPLES, TIME) < 0.5, -100, words[:, 1:])
    model = Language(nn.LSTM(WIDTH, WIDTH, batch_first=True), recur)

    def loss(net: nn.Module) -> Tensor:
        return functional.cross_entropy(net(words[:, :-1]).flatten(0, 1), targets.flatten())

    assert recorded(tmp_path / "run", model, loss)["sequence_next"].to_list() == [1]


class Series(nn.Module):
    """Foretells a series of numbers, with a convolution that looks ahead or not."""

    def __init__(self, ahead: bool) -> None:
        super().__init__()
        self.layer, self.pad = nn.Conv1d(1, 1, 3), (1, 1) if ahead else (2, 0)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(functional.pad(x.unsqueeze(1), self.pad)).squeeze(1)
        return out


@pytest.mark.parametrize("ahead", [True, False])
def test_series_of_numbers(tmp_path: Path, ahead: bool) -> None:
    class Embedded(Series):
        def __init__(self) -> None:
            super().__init__(ahead)
            self.first = nn.Linear(1, 1)

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(self.first(x.unsqueeze(-1)).squeeze(-1))

    x = torch.randn(SAMPLES, TIME + 1)
    (row,) = recorded(
        tmp_path / "run", Embedded(), lambda net: functional.mse_loss(net(x[:, :-1]), x[:, 1:])
    ).to_dicts()
    assert row["sequence_next"] == 1
    assert (row["sequence_later"] > 0.01) is ahead


def test_what_is_no_sequence_is_left_alone(tmp_path: Path) -> None:
    model = nn.Linear(5, 3)
    x, y = torch.randn(64, 5), torch.randint(0, 3, (64,))
    assert recorded(tmp_path / "run", model, lambda net: functional.cross_entropy(net(x), y)).is_empty()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([1, 3]))
def test_explained_variance_against_numpy(seed: int, features: int, batches: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(3, 2, (batches * 20, features))
    y = x[:, 0] * 2 + rng.normal(0, 1, len(x)) + 50
    labels = rng.integers(0, 4, len(x))
    numbers, classes = torch.from_numpy(y)[:, None], functional.one_hot(torch.from_numpy(labels), 4).double()
    for levels in (numbers, classes):
        sums = Sums(levels[:20], torch.from_numpy(x)[:20])
        for begin in range(0, len(x), 20):
            sums.add(levels[begin : begin + 20], torch.from_numpy(x)[begin : begin + 20])
        means = [x[labels == k].mean(0) for k in range(4) if (labels == k).any()]
        sizes = [(labels == k).sum() for k in range(4) if (labels == k).any()]
        between = sum(n * (m - x.mean(0)) ** 2 for n, m in zip(sizes, means, strict=True)) / (x.var(0) * len(x))
        squared = np.array([np.corrcoef(x[:, i], y)[0, 1] ** 2 for i in range(features)])
        np.testing.assert_allclose(sums.explained().numpy(), squared if levels is numbers else between, atol=1e-9)


@pytest.mark.parametrize("kind", ["regression", "classes", "binary"])
@pytest.mark.parametrize("copied", [True, False])
def test_a_feature_that_is_the_target(tmp_path: Path, kind: str, copied: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 6)
    labels = torch.randint(0, 4 if kind == "classes" else 2, (200,))
    target = torch.randn(200, 1) if kind == "regression" else labels
    if copied:
        x[:, 4] = 3 * target.reshape(-1).float() - 7 if kind != "classes" else (labels == 2).float()
    model = nn.Linear(6, {"regression": 1, "classes": 4, "binary": 1}[kind])

    def loss(net: nn.Module) -> Tensor:
        if kind == "regression":
            return functional.mse_loss(net(x), target)
        if kind == "classes":
            return functional.cross_entropy(net(x), target)
        return functional.binary_cross_entropy_with_logits(net(x)[:, 0], target.float())

    row = recorded(tmp_path / "run", model, loss, ("copied_share", "copied_feature")).to_dicts()[-1]
    assert (1 - row["copied_share"] < 1e-6) is copied
    assert row["copied_feature"] == 4 or not copied


def shares(where: Path, model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> pl.Series:
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with Recorder(where, model, optimizer, preset="basic", strict=True) as recorder:
        for _ in range(4):
            with recorder.step() as step:
                step.backward(loss(model))
            optimizer.step()
    return open_run(where).frame("steps", "copied_share")["copied_share"].drop_nulls().drop_nans()


class WithLoss(nn.Module):
    """Is given the labels, and returns the loss with the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.layer(x), labels.view(-1))


def test_labels_that_the_model_is_given_for_its_loss_are_no_feature(tmp_path: Path) -> None:
    x, y = torch.randn(64, 6), torch.randint(0, 4, (64, 1))
    assert float(shares(tmp_path / "run", WithLoss(), lambda net: net(x, labels=y))[-1]) < 0.5


def test_a_line_has_one_feature_and_a_constant(tmp_path: Path) -> None:
    x = torch.stack([torch.ones(64), torch.randn(64)], 1)
    y = 2 * x[:, 1:] + 1
    assert shares(tmp_path / "run", nn.Linear(2, 1), lambda net: functional.mse_loss(net(x), y)).is_empty()


def test_one_odd_sample_is_no_copy(tmp_path: Path) -> None:
    """The only sample of its class has a word of its own."""
    torch.manual_seed(0)
    x, y = (torch.rand(50, 300) < 0.02).float(), torch.arange(50) % 7
    y[0], x[:, 0], x[0, 0] = 7, 0, 1
    found = shares(tmp_path / "run", nn.Linear(300, 8), lambda net: functional.cross_entropy(net(x), y))
    assert float(found[-1]) < 1 - 1e-3


@pytest.mark.parametrize("width", [1, 2, 3])
def test_samples_are_not_taken_for_positions(tmp_path: Path, width: int) -> None:
    """Autoencoders of a few numbers: each sample depends on no later one, as they stand in any order."""
    x = torch.randn(80, width)
    model = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, width))
    looked = recorded(tmp_path / "run", model, lambda net: functional.mse_loss(net(x), x))
    assert looked.is_empty()


@pytest.mark.parametrize("samples", [TIME, TIME + 1, 5])
def test_positions_are_found_where_they_are_moved_to(tmp_path: Path, samples: int) -> None:
    """As many samples as positions, and a convolution that wants the channels first."""

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv1d(3, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.transpose(1, 2)).transpose(1, 2)

    x = torch.randn(samples, TIME + 1, 3)
    (row,) = recorded(tmp_path / "run", Causal(), lambda net: functional.mse_loss(net(x[:, :-1]), x[:, 1:])).to_dicts()
    assert (row["sequence_next"], row["sequence_later"]) == (1, 0)


@pytest.mark.parametrize(("batch_first", "mixes"), [(True, False), (False, True)])
def test_samples_of_sequences_that_are_mixed(tmp_path: Path, batch_first: bool, mixes: bool) -> None:
    words = torch.randint(0, WORDS, (SAMPLES, TIME + 1))
    model = Language(nn.GRU(WIDTH, WIDTH, batch_first=batch_first), recur)
    names = ("sequence_next", "sequence_mixing")
    (row,) = recorded(tmp_path / "run", model, lambda net: flat(net, words, 1), names).to_dicts()
    assert row["sequence_next"] == 1
    assert (row["sequence_mixing"] > 1e-3) is mixes
