"""Histograms of individual gradients against counts in Python."""

from __future__ import annotations

import bisect
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.models import MODELS
from support.samples import individual_gradients
from support.trainings import read, train
from torch import nn

from recorder.instruments.gradient_histogram import BINS, edges, histogram


def counted(values: list[float]) -> list[int]:
    """Counts by bisection: a magnitude on an edge belongs to the bin above it, on either side of zero."""
    counts = [0] * BINS
    for value in values:
        place = bisect.bisect_right(edges(), abs(value)) - 1
        place = min(place, BINS - 1)
        counts[place if value >= 0 else BINS - 1 - place] += 1
    return counts


@given(st.lists(st.floats(allow_nan=False, width=32), max_size=200))
def test_counts_by_the_edges(values: list[float]) -> None:
    assert histogram(torch.tensor(values, dtype=torch.float32)).long().tolist() == counted(values)


def test_nan_and_infinity_are_in_the_outermost_bins() -> None:
    counts = histogram(torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0])).tolist()
    assert counts[0] + counts[-1] == 3
    assert sum(counts) == 4


def test_counts_are_exact_beyond_what_a_float_can_count() -> None:
    assert histogram(torch.full((2**24 + 3,), 0.5)).max() == 2**24 + 3


def test_a_large_model_is_counted_on_fewer_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.instruments.gradient_histogram.ENTRIES", 200)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))  # 53 entries
    training = train(tmp_path / "run", model, [(torch.randn(20, 6), torch.randint(0, 3, (20,)))], nn.CrossEntropyLoss())
    assert read(training.path, "histograms")["samples"].unique().to_list() == [3]


@pytest.mark.parametrize("name", ["mlp", "convolutions", "tokens", "called twice"])
def test_every_entry_of_the_first_samples_is_counted(name: str, tmp_path: Path) -> None:
    make, inputs, targets = MODELS[name]
    torch.manual_seed(0)
    model = make().double()
    x, y = inputs(20), targets(20)
    training = train(tmp_path / "run", model, [(x, y)], nn.CrossEntropyLoss())
    expected = individual_gradients(model, training.parameters[0], x, y)
    names = [n for n, _ in model.named_parameters()]
    rows = read(training.path, "histograms").to_dicts()
    assert {row["tensor"] for row in rows} == set(names)
    for row in rows:
        assert row["samples"] == 16
        gradients = expected[names.index(row["tensor"])][:16].flatten().tolist()
        assert sum(row["counts"]) == len(gradients)
        moved = sum(abs(a - b) for a, b in zip(row["counts"], counted(gradients), strict=True))
        assert moved <= 0.02 * len(gradients) + 2  # entries on an edge, or zero but for rounding


def test_the_edges_stand_in_the_run_file(tmp_path: Path) -> None:
    make, inputs, targets = MODELS["mlp"]
    train(tmp_path / "run", make().double(), [(inputs(4), targets(4))], nn.CrossEntropyLoss())
    found = json.loads((tmp_path / "run" / "run-a00.json").read_text())["edges"]["gradient-histogram"]
    assert [float(edge) for edge in found] == edges()
    assert len(found) == BINS + 1
