"""CUR003."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import Training, found

from analyzer.detectors.early_stopping import EarlyStopping
from analyzer.findings import NotApplicable

RULE = EarlyStopping()


def evidence(*values: float, every: int = 10) -> dict[str, Any]:
    """Evidence at every tenth step, in turn: one less 63 times the mean signal-to-noise ratio of the entries."""
    steps = [values[(step // every) % len(values)] if step % every == 0 else None for step in range(300)]
    return {
        "individual_count": 64,
        "batch_size": 64,
        "grad_norm": 1.0,
        "inner_mean": 1.0,
        "gsnr_count": 1.0,
        "gsnr_sum": [None if value is None else (1 - value) / 63 for value in steps],
    }


def test_only_noise_is_left(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(steps=evidence(0.3)), tmp_path)
    assert (finding.severity, finding.value) == ("note", 1.0)


@pytest.mark.parametrize("values", [(-0.5,), (0.3, 0.3, -0.2)])
def test_near_misses(tmp_path: Path, values: tuple[float, ...]) -> None:
    assert found(RULE, Training(steps=evidence(*values)), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    """Of gradients that are but noise the evidence is positive at about half of the probes."""
    chance = random.Random(seed)
    values = [chance.gauss(0.0, 0.1) for _ in range(150)]
    assert found(RULE, Training(steps=evidence(*values, every=2)), tmp_path) == []


def test_too_few_probes(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="too few"):
        found(RULE, Training(steps=evidence(0.3, every=50)), tmp_path)
