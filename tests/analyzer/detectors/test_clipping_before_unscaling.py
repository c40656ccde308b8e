"""STP006."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.synthetic import CHANCE, Training, codes, falling, flat, found
from torch import nn

from analyzer.detectors.clipping_before_unscaling import ClippingBeforeUnscaling
from analyzer.findings import NotApplicable
from analyzer.run import open_run
from recorder import Recorder

RULE = ClippingBeforeUnscaling()
CRAWLING = [CHANCE * (1 - 0.05 * step / 300) for step in range(300)]
GROWING = [2.0**16 * 2 ** (step // 100) for step in range(300)]


def scaled(scale: Any, kept: Any) -> dict[str, Any]:
    return {"loss_scale": scale, "grad_norm_clipped": kept}


BEFORE = Training(
    loss=CRAWLING,
    update=lambda step, layer: 1e-6,
    straight=0.9,
    noise=0.005,
    steps=scaled(GROWING, [1 / scale for scale in GROWING]),
)


def test_norms_that_follow_the_scale(tmp_path: Path) -> None:
    (finding,) = found(RULE, BEFORE, tmp_path)
    assert finding.severity == "error"
    assert "clipped at 1 while" in finding.message


@pytest.mark.parametrize("scale", [2.0**power for power in range(8, 25)])
@pytest.mark.parametrize("threshold", ["1", "0.5"])
def test_norms_that_are_round_with_the_scale_only(tmp_path: Path, scale: float, threshold: str) -> None:
    (finding,) = found(RULE, BEFORE.but(steps=scaled(scale, float(threshold) / scale)), tmp_path)
    assert f"clipped at {threshold} while" in finding.message


def test_it_explains_clipping_that_is_too_tight(tmp_path: Path) -> None:
    assert codes(BEFORE.but(loss=flat(300)), tmp_path) == [("STP006", "error")]


def test_an_optimizer_that_makes_up_for_it_is_a_note(tmp_path: Path) -> None:
    (finding,) = found(RULE, BEFORE.but(loss=falling(300)), tmp_path)
    assert finding.severity == "note"


@pytest.mark.parametrize(
    "steps",
    [
        scaled(65536.0, 1e-4),  # tight, but of the unscaled gradients
        scaled(GROWING, 1e-3),
        scaled(65536.0, 1.2),  # hardly clipped
        scaled(65536.0, [0.01 * (1 + step % 10) for step in range(300)]),
    ],
)
def test_near_misses(tmp_path: Path, steps: dict[str, Any]) -> None:
    assert found(RULE, BEFORE.but(steps=steps), tmp_path) == []


@pytest.mark.parametrize("steps", [{}, {"grad_norm_clipped": 1e-3}])
def test_without_a_scaler_it_is_not_applicable(tmp_path: Path, steps: dict[str, Any]) -> None:
    with pytest.raises(NotApplicable, match="no gradient scaler"):
        found(RULE, BEFORE.but(steps=steps), tmp_path)


@pytest.mark.parametrize("unscaled_first", [True, False])
def test_a_recorded_training(tmp_path: Path, *, unscaled_first: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x, y = torch.randn(8, 4), torch.randint(3, (8,))
    with Recorder(tmp_path / "run", model, optimizer, preset="basic") as recorder:
        for _ in range(25):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(nn.functional.cross_entropy(model(x), y), scaler=scaler)
            if unscaled_first:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            scaler.step(optimizer)
            scaler.update()
    findings = list(RULE.detect(open_run(tmp_path / "run")))
    assert [finding.code for finding in findings] == ([] if unscaled_first else ["STP006"])
