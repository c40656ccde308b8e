"""LOS006."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.synthetic import CHANCE, Training, codes, falling, flat, found
from torch import nn

from analyzer.detectors.does_not_fit_one_batch import DoesNotFitOneBatch
from analyzer.findings import NotApplicable
from analyzer.run import open_run
from recorder import Recorder

RULE = DoesNotFitOneBatch()
MODE = {"mode": "overfit-batch"}
ONE_BATCH = Training(loss=falling(300, floor=0.001, rate=0.05), noise=0.0, manifest=MODE)


@pytest.mark.parametrize(
    ("loss", "course", "cause"),
    [
        (flat(300, 0.5 * CHANCE), "goes flat", "Samples that are alike"),
        ([CHANCE * math.exp(step / 100) for step in range(300)], "goes up", "flipped sign"),
        ([CHANCE, *flat(99, 2.0), *[math.nan] * 200], "explodes", "Numerical trouble"),
        ([1.2 + math.sin(step / 4) for step in range(300)], "oscillates", "too large"),
        ([CHANCE * math.exp(-step / 200) for step in range(300)], "falls too slowly", "too small"),
    ],
)
def test_the_course_of_the_loss_tells_the_causes(tmp_path: Path, loss: list[float], course: str, cause: str) -> None:
    (finding,) = found(RULE, ONE_BATCH.but(loss=loss), tmp_path)
    assert course in finding.message
    assert cause in finding.causes[0]
    assert finding.severity == ("warning" if course == "falls too slowly" else "error")


def test_what_the_figures_speak_for_comes_first(tmp_path: Path) -> None:
    modules = [{"name": "0", "type": "Linear"}, {"name": "1", "type": "Dropout"}]
    training = ONE_BATCH.but(loss=flat(300, 0.5 * CHANCE), manifest=MODE | {"modules": modules})
    (finding,) = found(RULE, training, tmp_path)
    assert finding.causes[0] == "Dropout is on"


def test_it_stands_above_other_symptoms_and_below_causes(tmp_path: Path) -> None:
    stuck = ONE_BATCH.but(loss=flat(300))
    assert codes(stuck, tmp_path / "alone") == [("LOS006", "error")]
    creeping = stuck.but(update=lambda step, layer: 1e-6, straight=0.9)
    assert codes(creeping, tmp_path / "explained") == [("STP002", "error")]


@pytest.mark.parametrize(
    "changes",
    [{}, {"loss": falling(300, floor=0.08, rate=0.05)}, {"loss": [*falling(299, floor=0.001, rate=0.05), math.nan]}],
)
def test_near_misses(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert found(RULE, ONE_BATCH.but(**changes), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert found(RULE, ONE_BATCH.but(loss=flat(300, 0.03), noise=0.5, seed=seed, logits=30.0), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(loss=flat(300)), "one repeated batch"),
        (ONE_BATCH.but(loss=flat(30)), "too few"),
        (ONE_BATCH.but(loss=flat(300, -1.0)), "negative"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


@pytest.mark.parametrize("alike", [True, False])
def test_a_recorded_run(tmp_path: Path, *, alike: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 4).repeat(8, 1) if alike else torch.randn(8, 4)
    y = torch.arange(8) % 2
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    with Recorder(tmp_path / "run", model, optimizer, preset="basic", mode="overfit-batch") as recorder:
        for _ in range(120):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
    assert [finding.code for finding in RULE.detect(open_run(tmp_path / "run"))] == ["LOS006"] * alike


@pytest.mark.parametrize(("hits", "fires"), [([32.0, 32.0], False), ([32.0, 31.0], True)])
def test_a_batch_that_is_recognised_fits_whatever_the_floor_of_its_loss(
    tmp_path: Path, hits: list[float], *, fires: bool
) -> None:
    """Bounded logits and smoothed labels have a floor above zero."""
    counted = {"class_counts": [[32.0, 32.0]] * 300, "class_hits": [hits] * 300}
    training = ONE_BATCH.but(loss=falling(300, floor=0.3), steps=counted)
    assert bool(found(RULE, training, tmp_path)) is fires
