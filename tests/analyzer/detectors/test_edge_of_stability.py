"""CUR002."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.synthetic import Training, falling, flat, found

from analyzer.detectors.edge_of_stability import EdgeOfStability
from analyzer.findings import NotApplicable

RULE = EdgeOfStability()


def sharpness(level: float) -> dict[str, Any]:
    """Largest eigenvalues at every tenth step, by their product with the rate over one plus the momentum."""
    return {"hess_max_ev": [level * 1.9 / 0.1 if step % 10 == 0 else None for step in range(300)]}


def scatter(share: float) -> dict[str, Any]:
    """Variance of the batch gradient over its squared norm."""
    return {"individual_count": 64, "batch_size": 64, "grad_norm": 1.0, "inner_mean": 1.0, "grad_var": 64 * share}


AT_THE_EDGE = Training(steps=sharpness(2.05))


def test_by_the_largest_eigenvalue(tmp_path: Path) -> None:
    (finding,) = found(RULE, AT_THE_EDGE, tmp_path)
    assert finding.severity == "note"
    assert finding.value == pytest.approx(2.05)


def test_by_alpha_where_gradients_are_free_of_noise(tmp_path: Path) -> None:
    zigzag = Training(loss=falling(300, rate=0.005), alpha=lambda step: 1.0, steps=scatter(0.05))
    (finding,) = found(RULE, zigzag, tmp_path)
    assert finding.chart is not None
    assert finding.chart.column == "alpha"


@pytest.mark.parametrize("level", [0.8, 3.5])
def test_near_misses(tmp_path: Path, level: float) -> None:
    assert found(RULE, Training(steps=sharpness(level)), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_alpha_of_noisy_gradients_tells_nothing(tmp_path: Path, seed: int) -> None:
    noisy = Training(loss=flat(300), noise=0.5, alpha=lambda step: 1.0, seed=seed, steps=scatter(1.0))
    with pytest.raises(NotApplicable, match="noisy"):
        found(RULE, noisy, tmp_path)


def test_other_optimizers_are_not_judged(tmp_path: Path) -> None:
    adam = {"groups": [{"optimizer": 0, "type": "Adam", "lr": 0.1, "options": {}}]}
    with pytest.raises(NotApplicable, match="SGD"):
        found(RULE, AT_THE_EDGE.but(manifest=adam), tmp_path)
