"""ACT001."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import tensor_entries
from support.synthetic import CHANCE, ByLayer, Training, codes, falling, flat, found
from support.trainings import train
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from analyzer.detectors.dead_units import DeadUnits
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = DeadUnits()
PROBES = [step for step in range(300) if step < 100 or step % 16 == 0]


def units(share: Callable[[int], float], **columns: Any) -> dict[str, Any]:
    """One activation module, with so many dead units by step."""
    rows = {"step": PROBES, "module": ["1"] * len(PROBES), "unit_count": 64, "saturated_share": 0.0}
    return rows | {"dead_share": [share(step) for step in PROBES]} | columns


SIZE = {"batch_size": 64}
BORN = Training(loss=flat(300), modules=units(lambda step: 0.8), steps=SIZE)
DIED = Training(loss=flat(300), modules=units(lambda step: 0.1 if step < 20 else 0.9), steps=SIZE)


def test_dead_from_the_first_step_on(tmp_path: Path) -> None:
    (finding,) = found(RULE, BORN, tmp_path)
    assert (finding.severity, finding.first_step, finding.value) == ("error", 0, 0.8)
    assert "iases" in finding.causes[0]


def test_died_later(tmp_path: Path) -> None:
    (finding,) = found(RULE, DIED, tmp_path)
    assert (finding.severity, finding.first_step) == ("error", 20)
    assert "rate" in finding.causes[0]
    assert finding.confidence < found(RULE, BORN, tmp_path / "born")[0].confidence


def test_it_explains_gradients_that_vanish(tmp_path: Path) -> None:
    gone: ByLayer = lambda step, layer: 0.05 if layer == 5 else 0.0  # noqa: E731
    assert codes(BORN.but(gradient=gone), tmp_path) == [("ACT001", "error")]


def test_a_rate_that_killed_them_comes_first(tmp_path: Path) -> None:
    thrown = DIED.but(loss=[CHANCE, 3.0, 5.0, *flat(297, 4.0)], update=lambda step, layer: 0.5 if step < 10 else 0.001)
    assert codes(thrown, tmp_path) == [("STP001", "error")]


def test_a_part_of_a_layer_is_a_warning_if_it_grew(tmp_path: Path) -> None:
    some = DIED.but(modules=units(lambda step: 0.05 if step < 20 else 0.4))
    assert [item.severity for item in found(RULE, some, tmp_path)] == ["warning"]
    assert found(RULE, some.but(modules=units(lambda step: 0.4)), tmp_path / "always") == []


@pytest.mark.parametrize(
    "training",
    [
        DIED.but(loss=falling(300)),  # a sparse network that learns well
        BORN.but(modules=units(lambda step: 0.3)),
        BORN.but(steps={"batch_size": 4}),  # of four samples, many units rest
        BORN.but(manifest={"mode": "overfit-batch"}),
        DIED.but(modules=units(lambda step: 0.9 if step % 32 else 0.0)),  # they come back
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


def test_a_whole_layer_is_told_from_small_batches(tmp_path: Path) -> None:
    assert len(found(RULE, BORN.but(steps={"batch_size": 2}, modules=units(lambda step: 1.0)), tmp_path)) == 1


def test_rows_without_a_gradient_stand_for_functional_activations(tmp_path: Path) -> None:
    rows: ByLayer = lambda step, layer: 0.9 if layer == 2 else 0.05  # noqa: E731
    training = Training(loss=flat(300), columns={"silent_rows": rows}, steps=SIZE)
    (finding,) = found(RULE, training, tmp_path)
    assert finding.tensors == ("2.weight",)
    assert found(RULE, training.but(loss=falling(300)), tmp_path / "healthy") == []


def test_a_layer_without_input_is_not_dead(tmp_path: Path) -> None:
    """All rows get no gradient, but the bias does: the input is zero."""
    names = ["0.weight", "0.bias", "1.weight"]
    rows: ByLayer = lambda step, layer: 1.0 if layer == 0 else 0.0  # noqa: E731
    gradient: ByLayer = lambda step, layer: 0.0 if layer == 0 else 0.05  # noqa: E731
    training = Training(
        loss=flat(300),
        layers=3,
        names=names,
        columns={"silent_rows": rows},
        gradient=gradient,
        manifest={"tensors": tensor_entries(names)},
        steps=SIZE,
    )
    assert found(RULE, training, tmp_path) == []
    dead: ByLayer = lambda step, layer: 0.05 if layer == 2 else 0.0  # noqa: E731
    assert len(found(RULE, training.but(gradient=dead), tmp_path / "dead")) == 1


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    noisy = Training(loss=flat(300), noise=0.5, seed=seed, modules=units(lambda step: (step * 37 % 100) / 100))
    assert found(RULE, noisy.but(steps=SIZE), tmp_path) == []


def test_not_applicable(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="no ReLU"):
        found(RULE, Training(), tmp_path)
    with pytest.raises(NotApplicable, match="the input is the same"):
        found(RULE, BORN.but(steps=SIZE | {"input_std": 0.0}), tmp_path / "constant")


class Functional(nn.Module):
    """A network whose activation is no module."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(6, 16), nn.Linear(16, 3)
        nn.init.constant_(self.hidden.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.head(F.relu(self.hidden(x))))


@pytest.mark.parametrize(("bias", "fires"), [(-50.0, True), (0.0, False)])
def test_a_recorded_training(tmp_path: Path, bias: float, *, fires: bool) -> None:
    torch.manual_seed(0)
    data = [(torch.randn(32, 6), torch.randint(0, 3, (32,))) for _ in range(120)]
    train(tmp_path / "run", Functional(bias), data, nn.CrossEntropyLoss(), preset="basic")
    assert bool(list(RULE.detect(open_run(tmp_path / "run")))) is fires
