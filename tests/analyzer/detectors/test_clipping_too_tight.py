"""STP005."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.synthetic import CHANCE, Training, codes, falling, flat, found

from analyzer.detectors.clipping_too_tight import ClippingTooTight
from analyzer.findings import NotApplicable

RULE = ClippingTooTight()
CRAWLING = [CHANCE * (1 - 0.1 * step / 300) for step in range(300)]
TIGHT = Training(
    loss=CRAWLING, update=lambda step, layer: 1e-4, straight=0.9, noise=0.005, steps={"grad_norm_clipped": 1e-3}
)
ADAM = {"groups": [{"optimizer": 0, "type": "AdamW", "lr": 1e-3, "options": {}}]}


def test_clipping_that_takes_nearly_all_of_every_step(tmp_path: Path) -> None:
    (finding,) = found(RULE, TIGHT, tmp_path)
    assert finding.severity == "error"
    assert finding.value == pytest.approx(1e-3 / 1.22, rel=0.01)
    assert any("still falling" in sentence for sentence in finding.evidence.supporting)


def test_it_explains_steps_that_are_too_small(tmp_path: Path) -> None:
    assert codes(TIGHT.but(loss=flat(300)), tmp_path) == [("STP005", "error")]


def test_a_loss_that_falls_late_is_a_warning(tmp_path: Path) -> None:
    late = [CHANCE * (1 - 0.8 * step / 300) for step in range(300)]
    (finding,) = found(RULE, TIGHT.but(loss=late), tmp_path)
    assert finding.severity == "warning"


def test_next_to_nothing_of_a_gradient_needs_no_other_witness(tmp_path: Path) -> None:
    (finding,) = found(RULE, TIGHT.but(loss=falling(300, floor=1.0), straight=0.2), tmp_path)
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": falling(300)},  # every step clipped, and it gets on
        {"straight": 0.2, "steps": {"grad_norm_clipped": 0.1}},  # the steps lead to and fro
        {"steps": {"grad_norm_clipped": 0.3}},  # a quarter is left
        {"steps": {"grad_norm_clipped": [1e-3 if step % 2 else None for step in range(300)]}},  # half of the steps
        {"manifest": ADAM},  # Adam does not notice
        {"steps": {}},  # no clipping
    ],
)
def test_near_misses(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert found(RULE, TIGHT.but(**changes), tmp_path) == []


def test_even_adam_notices_what_is_less_than_its_epsilon(tmp_path: Path) -> None:
    assert len(found(RULE, TIGHT.but(manifest=ADAM, steps={"grad_norm_clipped": 1e-7}), tmp_path)) == 1


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    norms = [0.02 * (1 + (seed + step) % 7) for step in range(300)]
    training = Training(loss=flat(300), noise=0.3, seed=seed, steps={"grad_norm_clipped": norms})
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (TIGHT.but(loss=flat(60)), "too few"),
        (TIGHT.but(loss=flat(300, -1.0)), "negative"),
        (TIGHT.but(steps=TIGHT.steps | {"optimizer": [step % 2 for step in range(300)]}), "take turns"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
