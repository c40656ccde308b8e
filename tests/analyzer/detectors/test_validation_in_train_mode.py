"""GEN003."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import write_run
from torch import nn

from analyzer.detectors.validation_in_train_mode import ValidationInTrainMode
from analyzer.findings import Finding, NotApplicable
from analyzer.run import open_run
from recorder import Recorder

RULE = ValidationInTrainMode()
NORM = {"modules": [{"name": "", "type": "Net"}, {"name": "bn", "type": "BatchNorm2d"}]}


def found(path: Path, *shares: float, split: str = "valid", **manifest: Any) -> list[Finding]:
    events = [
        {"kind": "evaluation", "step": 10 * i, "detail": {"split": split, "training_share": share}}
        for i, share in enumerate(shares)
    ]
    return list(RULE.detect(open_run(write_run(path, {"loss": [1.0] * 40}, events=events, manifest=manifest))))


def test_batch_norms_in_training_mode(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, 1.0, 1.0, 1.0, **NORM)
    assert finding.severity == "warning"
    assert "bn (BatchNorm2d)" in finding.message


def test_without_modules_that_mind_it_is_silent(tmp_path: Path) -> None:
    assert (
        found(tmp_path, 1.0, 1.0, modules=[{"name": "0", "type": "Linear"}, {"name": "1", "type": "LayerNorm"}]) == []
    )


def test_evaluation_mode_is_silent(tmp_path: Path) -> None:
    assert found(tmp_path, 0.0, 0.0, **NORM) == []


def test_a_check_before_the_first_step_alone_is_silent(tmp_path: Path) -> None:
    assert found(tmp_path, 1.0, 0.0, 0.0, **NORM) == []


@pytest.mark.parametrize("split", ["train", "samples"])
def test_passes_over_other_data_are_not_judged(tmp_path: Path, split: str) -> None:
    with pytest.raises(NotApplicable, match="held-out"):
        found(tmp_path, 1.0, split=split, **NORM)


@pytest.mark.parametrize("forgets", [True, False])
def test_a_recording(tmp_path: Path, *, forgets: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with Recorder(tmp_path / "run", model, optimizer, preset="basic") as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(model(torch.randn(8, 4)).square().mean())
            optimizer.step()
            model.train(forgets)
            with recorder.evaluate("valid"), torch.no_grad():
                model(torch.randn(8, 4))
            model.train()
    findings = list(RULE.detect(open_run(tmp_path / "run")))
    assert [finding.severity for finding in findings] == ["warning"] * forgets
