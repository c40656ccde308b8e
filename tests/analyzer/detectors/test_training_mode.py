"""ACT004."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import tensor_entries
from support.synthetic import Training, falling, flat, found
from torch import nn

from analyzer.detectors.training_mode import TrainingMode
from analyzer.findings import NotApplicable
from analyzer.run import open_run
from recorder import Recorder

RULE = TrainingMode()
PROBES = [step for step in range(300) if step < 100 or step % 16 == 0]
NAMES = ["0.weight", "1.weight", "2.weight"]


def manifest(*types: str, **changes: Any) -> dict[str, Any]:
    """A model of three modules of these types."""
    tensors = [
        entry | {"module_type": kind} | changes for entry, kind in zip(tensor_entries(NAMES), types, strict=True)
    ]
    return {"tensors": tensors, "modules": [{"name": str(i), "type": kind} for i, kind in enumerate(types)]}


def modes(share: float, since: int) -> dict[str, Any]:
    """Share of the modules in training mode from a step on, at probes."""
    return {"training_share": [(share if i >= since else 1.0) if i in PROBES else None for i in range(300)]}


NORMS = manifest("Linear", "BatchNorm1d", "Linear")
LEFT = Training(layers=3, manifest=NORMS, steps=modes(0.0, 40))


def test_left_after_a_validation(tmp_path: Path) -> None:
    (finding,) = found(RULE, LEFT, tmp_path)
    assert (finding.severity, finding.first_step) == ("warning", 40)
    assert "eval()" in finding.causes[0]


def test_harm_makes_it_an_error(tmp_path: Path) -> None:
    assert [item.severity for item in found(RULE, LEFT.but(loss=flat(300)), tmp_path)] == ["error"]


def test_never_in_training_mode(tmp_path: Path) -> None:
    (finding,) = found(RULE, LEFT.but(steps=modes(0.0, 0)), tmp_path)
    assert "never called" in finding.causes[0]
    drops = manifest("Linear", "Dropout", "Linear")
    assert [item.severity for item in found(RULE, LEFT.but(manifest=drops, steps=modes(0.0, 0)), tmp_path / "d")] == [
        "note"
    ]


def norm_modes(share: float, since: int) -> Training:
    """Only the batch norm is switched, and a part of the model stays in training mode."""
    rows = {"step": PROBES, "module": ["1"] * len(PROBES), "training": [step < since for step in PROBES]}
    return LEFT.but(steps=modes(share, since), modules=rows)


def test_a_part_that_is_left_in_evaluation_mode(tmp_path: Path) -> None:
    assert len(found(RULE, norm_modes(0.5, 40), tmp_path)) == 1


def test_a_part_that_was_meant_so_from_the_start(tmp_path: Path) -> None:
    assert found(RULE, norm_modes(0.5, 0), tmp_path) == []


def test_a_frozen_batch_norm_is_meant_so(tmp_path: Path) -> None:
    frozen = manifest("Linear", "BatchNorm1d", "Linear", requires_grad=False)
    with pytest.raises(NotApplicable, match="both modes"):
        found(RULE, LEFT.but(manifest=frozen), tmp_path)


def test_a_few_steps_in_between_are_silent(tmp_path: Path) -> None:
    shares = {"training_share": [0.0 if step in (40, 41, 42) else 1.0 for step in range(300)]}
    assert found(RULE, LEFT.but(steps=shares), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    noisy = Training(loss=flat(300), noise=0.5, seed=seed, layers=3, manifest=NORMS, steps=modes(1.0, 0))
    assert found(RULE, noisy, tmp_path) == []


def test_a_model_without_modes(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="both modes"):
        found(RULE, Training(loss=falling(300), steps=modes(0.0, 40)), tmp_path)


@pytest.mark.parametrize("switches_back", [True, False])
def test_a_recorded_training(tmp_path: Path, *, switches_back: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", model, optimizer, preset="basic") as recorder:
        for index in range(60):
            inputs = torch.randn(8, 6)
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1)))
            optimizer.step()
            if index % 20 == 19:
                model.eval()
                with recorder.evaluate("valid"), torch.no_grad():
                    model(inputs)
                if switches_back:
                    model.train()
    findings = list(RULE.detect(open_run(tmp_path / "run")))
    assert [item.first_step for item in findings] == ([] if switches_back else [20])
