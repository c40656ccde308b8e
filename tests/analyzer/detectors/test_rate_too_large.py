"""STP001."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import CHANCE, ByLayer, Training, codes, falling, flat, found

from analyzer.detectors.rate_too_large import RateTooLarge
from analyzer.findings import NotApplicable

RULE = RateTooLarge()


def leap(ratio: float) -> ByLayer:
    """Large updates at the start."""
    return lambda step, layer: ratio if step < 10 else 0.001


THROWN = Training(loss=[CHANCE, 3.0, 5.0, *flat(297, 4.0)], update=leap(0.5), alpha=lambda step: 1.5)


def test_steps_that_overshoot_and_harm(tmp_path: Path) -> None:
    (finding,) = found(RULE, THROWN, tmp_path)
    assert (finding.severity, finding.first_step) == ("error", 1)
    assert finding.value == pytest.approx(0.5)
    assert len(finding.evidence.supporting) == 3


def test_what_follows_is_folded(tmp_path: Path) -> None:
    died: ByLayer = lambda step, layer: 0.05 if step < 8 or layer == 5 else 0.0  # noqa: E731
    losses = [*THROWN.loss[:200], *flat(100, math.nan)]
    assert codes(THROWN.but(gradient=died, loss=losses), tmp_path) == [("STP001", "error")]


@pytest.mark.parametrize(
    ("changes", "by"),
    [
        ({"update": leap(0.5), "alpha": lambda step: None}, "update_ratio"),  # as the preset basic has it
        ({"update": leap(0.05)}, "alpha"),
    ],
)
def test_either_step_witness_is_enough(tmp_path: Path, changes: dict[str, Any], by: str) -> None:
    (finding,) = found(RULE, THROWN.but(**changes), tmp_path)
    assert finding.chart is not None
    assert finding.chart.column == by


def test_large_steps_that_do_no_harm_are_silent(tmp_path: Path) -> None:
    """Full-batch training at the edge of stability overshoots all the time."""
    assert found(RULE, THROWN.but(loss=falling(300)), tmp_path) == []


@pytest.mark.parametrize(("ratio", "severities"), [(1.3, ["note"]), (0.8, [])])
@pytest.mark.parametrize(
    "training",
    [
        Training(),
        Training(loss=flat(300, -1.0)),  # of a policy
        Training(steps={"optimizer": [step % 2 for step in range(300)]}),  # of adversaries
    ],
    ids=["falls", "negative", "turns"],
)
def test_a_step_that_overwrites_the_weights_is_noted(
    tmp_path: Path, training: Training, ratio: float, severities: list[str]
) -> None:
    try:
        assert [item.severity for item in found(RULE, training.but(update=leap(ratio)), tmp_path)] == severities
    except NotApplicable:
        assert severities == []


def test_harm_without_large_steps_is_silent(tmp_path: Path) -> None:
    training = THROWN.but(update=lambda step, layer: 0.004, alpha=lambda step: 0.2)
    assert found(RULE, training, tmp_path) == []


def test_a_mean_of_alpha_above_zero_is_no_fault(tmp_path: Path) -> None:
    assert found(RULE, Training(alpha=lambda step: 0.8), tmp_path) == []


def test_alpha_of_steps_that_hardly_move_is_noise(tmp_path: Path) -> None:
    training = THROWN.but(update=lambda step, layer: 1e-4, alpha=lambda step: 4.0)
    assert found(RULE, training, tmp_path) == []


def test_a_bump_that_passes_is_silent(tmp_path: Path) -> None:
    bump = falling(300)
    bump[5:9] = [3.0, 3.7, 3.2, 2.4]
    assert found(RULE, THROWN.but(loss=bump), tmp_path) == []


def test_one_huge_batch_loss_is_no_level(tmp_path: Path) -> None:
    spike = falling(300)
    spike[7] = 1e5
    assert found(RULE, THROWN.but(loss=spike), tmp_path) == []


def test_a_run_that_recovered_is_warned(tmp_path: Path) -> None:
    training = THROWN.but(loss=[CHANCE, *flat(40, 9.0), *falling(260, 9.0)])
    assert [finding.severity for finding in found(RULE, training, tmp_path)] == ["warning"]


def test_a_network_that_was_killed_quietly(tmp_path: Path) -> None:
    """The loss stays at chance; what tells is that gradients were sound, and are gone after large updates."""
    died: ByLayer = lambda step, layer: 0.05 if step < 8 or layer == 5 else 0.0  # noqa: E731
    training = THROWN.but(loss=flat(300), gradient=died, update=leap(0.08))
    (finding,) = found(RULE, training, tmp_path)
    assert finding.first_step == 8
    assert codes(training, tmp_path / "all") == [("STP001", "error")]


def test_weights_that_regularisation_shrank_are_not_the_rate(tmp_path: Path) -> None:
    died: ByLayer = lambda step, layer: 0.05 * 0.5**step  # noqa: E731
    training = THROWN.but(loss=flat(300), gradient=died, update=leap(0.08), weight=lambda step: 0.9**step + 1e-3)
    assert found(RULE, training, tmp_path) == []


def test_vanishing_gradients_come_first(tmp_path: Path) -> None:
    """A plateau makes alpha noise; that a deep sigmoid network stays on it is not the rate's doing."""
    training = Training(
        loss=flat(300),
        gradient=lambda step, layer: 10.0 ** (layer - 6),
        update=lambda step, layer: 0.05 if layer == 5 else 1e-7,
        alpha=lambda step: 3.0,
    )
    assert codes(training, tmp_path) == [("GRD002", "error")]


def test_a_rise_of_the_rate_is_looked_at(tmp_path: Path) -> None:
    late: ByLayer = lambda step, layer: 0.6 if 400 <= step < 420 else 0.004  # noqa: E731
    training = Training(
        loss=[*falling(400), *flat(200, 6.0)],
        update=late,
        rate=lambda step: 0.1 if step < 400 else 5.0,
        dense=600,
    )
    assert [finding.first_step for finding in found(RULE, training, tmp_path)] == [400]


def test_a_late_collapse_at_a_steady_rate_is_not_claimed(tmp_path: Path) -> None:
    training = Training(loss=[*falling(400), *flat(200, 6.0)], update=lambda step, layer: 0.6)
    assert [finding.severity for finding in found(RULE, training, tmp_path)] == ["note"]  # of such steps, no more


def test_ascent_is_not_the_rate(tmp_path: Path) -> None:
    """Updates along the gradient: the sign is wrong."""
    training = THROWN.but(steps={"start_slope": 0.01})
    assert found(RULE, training, tmp_path) == []


def test_a_run_of_five_steps_that_broke(tmp_path: Path) -> None:
    training = Training(loss=[CHANCE, 40.0, 1e9, math.nan, math.nan], update=lambda step, layer: 3.0)
    assert [finding.first_step for finding in found(RULE, training, tmp_path)] == [1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", [CHANCE, 0.01])
def test_noise_is_silent(tmp_path: Path, seed: int, level: float) -> None:
    noisy = Training(loss=flat(300, level), noise=0.4, alpha=lambda step: (-1.0) ** step * 5, seed=seed)
    assert found(RULE, noisy.but(update=lambda step, layer: 0.05), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (THROWN.but(rate=lambda step: 1e-6 * 1.05**step), "range test"),
        (THROWN.but(loss=[-value for value in THROWN.loss]), "negative"),
        (THROWN.but(loss=flat(300, 30.0), logits=60.0), "GRD001"),
        (THROWN.but(steps={"optimizer": [step % 2 for step in range(300)]}), "optimizers"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def restless(share: float, ratio: float = 0.08) -> ByLayer:
    """Updates that are large in a share of the probes, spread over the run."""
    return lambda step, layer: ratio if step % 10 < 10 * share else 0.005


@pytest.mark.parametrize(("loss", "severity"), [(flat(300), "error"), (falling(300, floor=0.8), "note")])
def test_steps_that_never_settle(tmp_path: Path, loss: list[float], severity: str) -> None:
    training = Training(loss=loss, update=restless(0.3), alpha=lambda step: None, every=1)
    (finding,) = found(RULE, training, tmp_path)
    assert finding.severity == severity
    assert finding.value == pytest.approx(0.08)


@pytest.mark.parametrize("update", [restless(0.05), restless(0.3, ratio=0.05)], ids=["too few", "too small"])
def test_steps_that_are_large_now_and_then_are_silent(tmp_path: Path, update: ByLayer) -> None:
    for seed in range(3):
        training = Training(loss=flat(300), update=update, alpha=lambda step: None, every=1, seed=seed)
        assert found(RULE, training, tmp_path / str(seed)) == []
