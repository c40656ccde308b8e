"""DAT006."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.synthetic import CHANCE, Training, falling, flat, found, loss_input, validated

from analyzer.detectors.flipped_sign import FlippedSign
from analyzer.findings import NotApplicable

RULE = FlippedSign()
RISING = [CHANCE * math.exp(step / 60) for step in range(300)]
MAXIMIZE = {"groups": [{"optimizer": 0, "type": "SGD", "lr": 0.1, "options": {"maximize": True}}]}


def training(loss: Sequence[float], name: str = "cross_entropy", **changes: Any) -> Training:
    """Without slopes, as the preset `basic` records it."""
    steps = changes.pop("steps", {}) | {"start_slope": None, "end_slope": None}
    events = (loss_input(name),) if name else ()
    return Training(loss=loss, events=events, steps=steps, noise=changes.pop("noise", 0.02), **changes)


def test_a_negated_cross_entropy(tmp_path: Path) -> None:
    (finding,) = found(RULE, training([-loss for loss in RISING]), tmp_path)
    assert finding.severity == "error"
    assert "negated" in finding.message


def test_a_negated_error(tmp_path: Path) -> None:
    steps = [-0.9 * math.exp(step / 60) for step in range(300)]
    assert len(found(RULE, training(steps, "mse_loss"), tmp_path)) == 1


def test_maximize(tmp_path: Path) -> None:
    (finding,) = found(RULE, training(RISING, manifest=MAXIMIZE), tmp_path)
    assert "maximize" in finding.message


def test_slopes_that_point_up(tmp_path: Path) -> None:
    up = Training(loss=RISING, events=(loss_input(),), steps={"start_slope": 0.01})
    (finding,) = found(RULE, up, tmp_path / "up")
    assert "uphill" in finding.evidence.supporting[0]
    assert found(RULE, up.but(steps={"start_slope": -0.01}), tmp_path / "down") == []


def test_a_loss_that_creeps_up(tmp_path: Path) -> None:
    assert len(found(RULE, training(RISING), tmp_path / "small")) == 1
    large = training(RISING, update=lambda step, layer: 0.2)  # a rate too large
    assert found(RULE, large, tmp_path / "large") == []


def test_a_loss_that_was_not_seen_and_falls_for_ever(tmp_path: Path) -> None:
    deep = [-math.exp(step / 20) for step in range(300)]
    (finding,) = found(RULE, training(deep, "", manifest={"loss": None}), tmp_path)
    assert "floor" in finding.message


@pytest.mark.parametrize(
    "quiet",
    [
        training(falling(300)),
        training(flat(300)),
        training([-loss for loss in falling(300)], manifest=MAXIMIZE),  # twice the sign
        training(falling(300), manifest=MAXIMIZE),  # whatever it means, it works
        training([*falling(150, rate=0.05), *[0.05 + step / 200 for step in range(150)]]),  # overshoots late
        training([-0.5 - 0.3 * step / 300 for step in range(300)], "mse_loss"),  # a bonus for something
    ],
)
def test_others_are_silent(tmp_path: Path, quiet: Training) -> None:
    assert found(RULE, quiet, tmp_path) == []


@pytest.mark.parametrize(
    ("name", "ratio", "fires"),
    [("reward", 0.005, True), ("entropy", 0.005, False), ("reward", 0.5, False)],
    ids=["shunned", "of no use", "thrown off by its steps"],
)
def test_a_metric_that_is_driven_the_wrong_way(tmp_path: Path, name: str, ratio: float, *, fires: bool) -> None:
    rewards = validated(lambda share: 2.0 - share, every=3, noise=0.02, name=name, split="train")
    policy = training([-1.0 - step % 3 for step in range(300)], "", manifest={"loss": None}, metrics=rewards)
    try:
        assert bool(found(RULE, policy.but(update=lambda step, layer: ratio), tmp_path)) is fires
    except NotApplicable:
        assert not fires


@pytest.mark.parametrize(("end", "best", "fires"), [(1e-6, 0.3, True), (0.2, 0.3, False), (1e-6, 0.8, False)])
def test_a_metric_that_is_driven_to_nothing(tmp_path: Path, end: float, best: float, *, fires: bool) -> None:
    """An overlap that was best before any training; not one that stays, nor one that was learned and lost."""
    score = validated(lambda share: 0.3 if share < 0.1 else best if share < 0.5 else end, name="dice")
    mixed = training([0.5 - step / 300 for step in range(300)], "binary_cross_entropy_with_logits", metrics=score)
    try:
        assert bool(found(RULE, mixed, tmp_path)) is fires
    except NotApplicable:
        assert not fires


def test_noise_is_silent(tmp_path: Path) -> None:
    for seed in range(5):
        assert found(RULE, training(flat(300), noise=0.5, seed=seed), tmp_path / str(seed)) == []
        up = Training(loss=flat(300), noise=0.5, seed=seed, events=(loss_input(),), steps={"start_slope": 1.0})
        assert found(RULE, up, tmp_path / f"up-{seed}") == []


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (training([-1.0 - step for step in range(300)], "", manifest={"loss": None}), "zero at best"),  # a policy
        (training([-1.0 - step for step in range(300)], "gaussian_nll_loss"), "zero at best"),
        (training([1.0 - step / 100 for step in range(300)], "mse_loss"), "zero at best"),
        (training(RISING, steps={"optimizer": [step % 2 for step in range(300)]}), "optimizers"),
        (training([math.nan] * 20), "finite"),
    ],
)
def test_not_applicable(tmp_path: Path, other: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, other, tmp_path)


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "negated", lambda p, t: -F.cross_entropy(p, t)))
    assert says(RULE, recorded(tmp_path / "maximize", F.cross_entropy, maximize=True))
    assert not says(RULE, recorded(tmp_path / "right", F.cross_entropy))


def beside(own: list[float], part: list[float]) -> Training:
    """A loss that was called, and a term beside it."""
    total = [a + b for a, b in zip(own, part, strict=True)]
    return training(total, "mse_loss", noise=0.0, steps={"loss_part": part})


SUNK = [-0.1 * math.exp(step / 30) for step in range(300)]


def test_a_term_beside_the_loss_that_is_subtracted(tmp_path: Path) -> None:
    (finding,) = found(
        RULE, beside(SUNK, [1 - step / 500 if step < 200 else step / 300 for step in range(300)]), tmp_path
    )
    assert finding.severity == "error"
    assert "subtracted" in finding.message


@pytest.mark.parametrize(
    ("own", "part"),
    [
        (SUNK, [1 / (1 + step) for step in range(300)]),  # the loss that was called gets better
        ([-0.1 - step / 3000 for step in range(300)], [1 + step / 300 for step in range(300)]),  # an entropy
        ([0.1 * math.exp(-step / 30) for step in range(300)], [1 + step / 300 for step in range(300)]),  # a penalty
    ],
)
def test_a_term_that_helps_or_has_a_floor_is_silent(tmp_path: Path, own: list[float], part: list[float]) -> None:
    with suppress(NotApplicable):
        assert not [f for f in found(RULE, beside(own, part), tmp_path) if "subtracted" in f.message]
