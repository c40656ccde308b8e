"""CUR001."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.synthetic import CHANCE, Training, codes, falling, flat, found

from analyzer.detectors.noise_dominated import NoiseDominated
from analyzer.findings import NotApplicable

RULE = NoiseDominated()
LEVEL = 1.2


def owed(share: float, *, batch: int = 2, scatter: float = 1.0, steps: int = 600) -> dict[str, Any]:
    """Steps that take four times this share off the loss of their own batch, along gradients that scatter so much."""
    return {
        "start_slope": [-4 * share * LEVEL] * steps,
        "batch_size": batch,
        "individual_count": batch,
        "grad_norm": 1.0,
        "inner_mean": 1.0,
        "grad_var": scatter * batch,
    }


def wandering(**columns: Any) -> Training:
    """Learned about a half, and then went no further."""
    return Training(loss=falling(600, CHANCE, LEVEL, 0.1), noise=0.3, steps=columns)


def test_steps_that_wander(tmp_path: Path) -> None:
    (finding,) = found(RULE, wandering(**owed(0.1)), tmp_path)
    assert finding.severity == "warning"
    assert finding.value == pytest.approx(0.1, rel=0.1)


def test_a_large_batch_deserves_a_note(tmp_path: Path) -> None:
    assert [item.severity for item in found(RULE, wandering(**owed(0.2, batch=64)), tmp_path)] == ["note"]


def test_without_slopes_the_rate_and_the_gradients_tell(tmp_path: Path) -> None:
    """As at preset basic, and with single samples: 0.1 * 4.8 / 4 of 1.2."""
    bare = {"start_slope": None, "batch_size": 1, "grad_norm": 4.8**0.5}
    (finding,) = found(RULE, wandering(**bare), tmp_path)
    assert finding.value == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    "training",
    [
        wandering(**owed(0.01)),  # a noise floor of the data
        wandering(**owed(0.05, batch=64)),
        wandering(**owed(0.1, scatter=0.05)),  # overshooting, not noise
        Training(loss=falling(600, floor=0.05), noise=0.3, steps=owed(0.1)),  # learned nearly all
        Training(loss=falling(600, CHANCE, 0.5, 0.002), noise=0.1, steps=owed(0.1)),  # still falling
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


def test_a_rate_that_harmed_comes_first(tmp_path: Path) -> None:
    thrown = Training(
        loss=[CHANCE, *flat(599, 4.0)], update=lambda step, layer: 0.5 if step < 20 else 0.01, steps=owed(0.5)
    )
    assert codes(thrown, tmp_path) == [("STP001", "error")]


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    quiet = {"start_slope": None, "batch_size": 4, "grad_norm": 0.1}
    assert found(RULE, Training(loss=flat(600), noise=0.5, seed=seed, steps=quiet), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(loss=falling(100)), "200 steps"),
        (Training(loss=[-1.0] * 600), "negative"),
        (
            Training(
                loss=flat(600),
                steps={"start_slope": None},
                manifest={"groups": [{"optimizer": 0, "type": "Adam", "lr": 0.1, "options": {}}]},
            ),
            "neither slopes",
        ),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
