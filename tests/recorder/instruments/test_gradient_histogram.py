"""Histograms of individual gradients against numpy's, of gradients from one backward pass a sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.models import MODELS
from support.nosync import no_sync
from support.samples import individual_gradients
from support.trainings import Training, read, train
from torch import Tensor, nn

from recorder.bins import bins_of
from recorder.entry_counts import ENTRY_BINS, JOINT_ENTRY_BINS, PARAMETER_BINS, Entries, counts_of

SHAPE = (len(JOINT_ENTRY_BINS), len(PARAMETER_BINS))
CHEAP = {"preset": "full", "instruments": {"largest-eigenvalue": None, "hessian-trace": None}}


def coarse(counts: Tensor | list[int]) -> list[int]:
    """Counts by the bins of entries as counts by their joint bins, which are made of them."""
    middles = [(low + high) / 2 for low, high in zip(ENTRY_BINS.edges()[1:], ENTRY_BINS.edges()[2:-1], strict=False)]
    found = [0] * len(JOINT_ENTRY_BINS)
    places = [0, *bins_of(torch.tensor(middles), JOINT_ENTRY_BINS).tolist(), len(JOINT_ENTRY_BINS) - 1]
    for place, count in zip(places, counts, strict=True):
        found[place] += int(count)
    return found


def joint(parts: Tensor, parameter: Tensor) -> Tensor:
    """Counts (entry bins, parameter bins) of parts (samples, *shape)."""
    (found,) = counts_of([Entries(0, parts, bins_of(parameter, PARAMETER_BINS))])
    assert found.joint is not None
    assert coarse(found.counts) == found.joint.unflatten(0, SHAPE).sum(1).tolist()
    return found.joint.unflatten(0, SHAPE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_counts_in_two_dimensions(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    parameter = off_edges((torch.randn(7, 5) * torch.logspace(-6, 3, 35).view(7, 5)).to(dtype))
    parts = off_edges((torch.randn(40, 7, 5) * torch.logspace(-9, 4, 40).view(40, 1, 1)).to(dtype))
    edges = (JOINT_ENTRY_BINS.edges(), PARAMETER_BINS.edges())
    expected, _, _ = np.histogram2d(*_pairs(parts, parameter), bins=edges)
    assert (expected > 0).sum() > 100
    assert joint(parts, parameter).tolist() == expected.tolist()


def off_edges(values: Tensor) -> Tensor:
    """Values none of which is a power of two, since numpy puts negative edges into the inner bin."""
    return torch.where(torch.frexp(values)[0].abs() == 0.5, values * 1.5, values)


def _pairs(parts: Tensor, parameter: Tensor) -> tuple[Any, Any]:
    return parts.double().flatten().numpy(), parameter.double().expand_as(parts).flatten().numpy()


def test_what_is_not_finite_is_counted_in_the_outermost_bins() -> None:
    parts = torch.tensor([[float("nan"), float("inf"), float("-inf"), 1.0]])
    found = joint(parts, torch.tensor([1.0, float("nan"), float("-inf"), float("inf")]))
    assert int(found.sum()) == 4
    assert found[0].sum() + found[-1].sum() == 3
    assert found[0, 0] == 1
    assert found[:, 0].sum() + found[:, -1].sum() == 3


def test_counts_are_exact_beyond_what_a_float_can_count() -> None:
    size = 2**24 + 3
    found = joint(torch.full((1, size), 0.5), torch.full((1,), -0.25).expand(size))
    assert found.max() == size


def test_counting_waits_for_nothing() -> None:
    parts, elements = torch.randn(3, 4), bins_of(torch.randn(4), PARAMETER_BINS)
    with no_sync():
        counts_of([Entries(0, parts, elements), Entries(1, parts, bins_of(parts[0], PARAMETER_BINS))], torch.ones(()))


def trained(tmp_path: Path, name: str, samples: int, **settings: Any) -> tuple[Training, list[Tensor]]:
    """One step of a model of `MODELS`, and the individual gradients at it."""
    make, inputs, targets = MODELS[name]
    torch.manual_seed(0)
    model = make().double()
    x, y = inputs(samples), targets(samples)
    training = train(tmp_path / "run", model, [(x, y)], nn.CrossEntropyLoss(), **(CHEAP | settings))
    return training, individual_gradients(model, training.parameters[0], x, y)


def edges_of(path: Path) -> tuple[list[float], list[float], list[float]]:
    """As they stand in the run file: of entries alone, of entries beside parameters, of parameters."""
    found = json.loads((path / "run-a00.json").read_text())["edges"]
    both = found["gradient-parameter-histogram"]
    alone, entries, parameters = found["gradient-histogram"], both["gradient"], both["parameter"]
    return [float(e) for e in alone], [float(e) for e in entries], [float(e) for e in parameters]


def moved(found: Any, expected: Any) -> float:
    return float(np.abs(np.asarray(found) - np.asarray(expected)).sum())


@pytest.mark.parametrize("name", ["mlp", "convolutions", "tokens", "called twice", "time first"])
@pytest.mark.parametrize("asked", [None, 18, "all"])
def test_every_entry_of_the_samples_is_counted(name: str, asked: Any, tmp_path: Path) -> None:
    training, gradients = trained(tmp_path, name, 20, histogram_samples=asked)
    samples = {None: 16, 18: 18, "all": 20}[asked]
    alone, entries, parameters = edges_of(training.path)
    names = [n for n, _ in training.model.named_parameters()]
    rows = read(training.path, "histograms").to_dicts()
    assert {row["tensor"] for row in rows} == set(names)
    for row in rows:
        position = names.index(row["tensor"])
        parts, parameter = gradients[position][:samples], training.parameters[0][position]
        assert row["samples"] == samples
        assert sum(row["counts"]) == sum(row["joint_counts"]) == parts.numel()
        limit = 0.02 * parts.numel() + 2  # entries on an edge, or zero but for rounding
        assert moved(row["counts"], np.histogram(parts.flatten().numpy(), alone)[0]) <= limit
        pairs = np.histogram2d(*_pairs(parts, parameter), bins=(entries, parameters))[0]
        assert moved(np.reshape(row["joint_counts"], SHAPE), pairs) <= limit
        assert coarse(row["counts"]) == np.reshape(row["joint_counts"], SHAPE).sum(1).tolist()


def test_a_large_layer_is_counted_on_fewer_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.entry_counts.ENTRIES", 110)
    training, _ = trained(tmp_path, "mlp", 20)  # layers with 35 and 18 entries
    rows = {row["tensor"]: row["samples"] for row in read(training.path, "histograms").to_dicts()}
    assert rows == {"0.weight": 3, "0.bias": 3, "2.weight": 6, "2.bias": 6}


def test_samples_are_taken_from_one_pass_after_the_other(tmp_path: Path) -> None:
    make, inputs, targets = MODELS["mlp"]
    torch.manual_seed(0)
    model = make().double()
    batches = [(inputs(6), targets(6)) for _ in range(4)]
    training = train(tmp_path / "run", model, [batches], nn.CrossEntropyLoss())
    x, y = (torch.cat(each)[:16] for each in zip(*batches, strict=True))
    gradients = individual_gradients(model, training.parameters[0], x, y)
    for row, gradient in zip(read(training.path, "histograms").to_dicts(), gradients, strict=True):
        assert row["samples"] == 16
        expected = np.histogram(gradient.flatten().numpy(), ENTRY_BINS.edges())[0]
        assert moved(row["counts"], expected) <= 0.02 * gradient.numel() + 2


def test_chunks_and_layers_counted_apart_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(where: Path) -> list[dict[str, Any]]:
        return read(trained(where, "called twice", 20, histogram_samples="all")[0].path, "histograms").to_dicts()

    together = rows(tmp_path / "together")
    monkeypatch.setattr("recorder.entry_counts.TOGETHER", 1)
    monkeypatch.setattr("recorder.samplewise.ELEMENTS", 100)
    assert rows(tmp_path / "apart") == together


@pytest.mark.parametrize(("left_out", "there"), [("gradient-histogram", "joint_counts"), (None, None)])
def test_either_can_be_had_without_the_other(left_out: str | None, there: str | None, tmp_path: Path) -> None:
    """The joint one is sparse: every 2 * 16th step. What was not asked for is null."""
    left = {left_out: None} if left_out else {}
    settings = {**CHEAP, "instruments": {**CHEAP["instruments"], **left}}
    make, inputs, targets = MODELS["mlp"]
    batches = [(inputs(4), targets(4)) for _ in range(4)]
    training = train(tmp_path / "run", make().double(), batches, nn.CrossEntropyLoss(), every=2, **settings)
    rows = read(training.path, "histograms").filter(tensor="2.bias").to_dicts()
    assert [row["step"] for row in rows] == ([0] if left_out else [0, 1, 2, 3])
    assert [row["joint_counts"] is not None for row in rows] == [True] + [False] * (len(rows) - 1)
    assert all((row["counts"] is None) == (left_out is not None) for row in rows)


def test_a_layer_that_cannot_be_counted_is_uncovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted then, since whether layers tell the whole gradient can no longer be checked."""

    def fail(*_: Any) -> Any:
        raise RuntimeError("no rule")

    monkeypatch.setattr("recorder.samplewise.by_twin", fail)
    model = nn.Sequential(nn.Conv1d(2, 3, 1), nn.Flatten(), nn.Linear(12, 3))
    batch = torch.randn(5, 2, 4), torch.randint(0, 3, (5,))
    without = {"instruments": {"individual-gradients": None}}
    training = train(tmp_path / "run", model, [batch, batch], nn.CrossEntropyLoss(), **without)
    assert training.errors() == []
    assert not list(training.path.glob("histograms/*"))


@pytest.mark.parametrize("wrong", [0, -1, "few", 2.5])
def test_a_number_of_samples_that_cannot_be_is_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="histogram_samples must be at least 1"):
        trained(tmp_path, "mlp", 4, histogram_samples=wrong)


def test_what_stands_in_the_run_file_are_the_edges(tmp_path: Path) -> None:
    training, _ = trained(tmp_path, "mlp", 4)
    assert edges_of(training.path) == (ENTRY_BINS.edges(), JOINT_ENTRY_BINS.edges(), PARAMETER_BINS.edges())
