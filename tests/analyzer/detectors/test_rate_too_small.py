"""STP002."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from support.runs import write_run
from support.synthetic import CHANCE, ByLayer, Training, codes, falling, flat, found, loss_input

from analyzer.detectors.rate_too_small import RateTooSmall
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = RateTooSmall()


def steps(ratio: float) -> ByLayer:
    return lambda step, layer: ratio


CREEPING = Training(loss=flat(300), update=steps(1e-6), straight=0.9)


def test_steps_that_get_nowhere(tmp_path: Path) -> None:
    (finding,) = found(RULE, CREEPING, tmp_path)
    assert finding.severity == "error"
    assert finding.value == pytest.approx(1e-6)
    assert "1,000" in finding.advice[0].replace("\u202f", ",")


def test_it_explains_a_stalled_loss(tmp_path: Path) -> None:
    assert codes(CREEPING, tmp_path) == [("STP002", "error")]


def test_a_loss_that_falls_too_slowly(tmp_path: Path) -> None:
    slow = [CHANCE * (1 - 0.1 * step / 300) for step in range(300)]
    (finding,) = found(RULE, CREEPING.but(loss=slow, update=steps(3e-4), noise=0.005), tmp_path)
    assert finding.severity == "warning"
    assert any("still falling" in sentence for sentence in finding.evidence.supporting)


def test_near_miss_in_size(tmp_path: Path) -> None:
    assert found(RULE, CREEPING.but(update=steps(2e-3)), tmp_path) == []


def test_near_miss_in_direction(tmp_path: Path) -> None:
    """Steps that lead to and fro find nothing to follow: labels at random, not a rate too small."""
    assert found(RULE, CREEPING.but(update=steps(8e-4), straight=0.1), tmp_path) == []


def test_noisy_batches_hide_the_direction_of_steps_that_could_not_get_anywhere(tmp_path: Path) -> None:
    assert len(found(RULE, CREEPING.but(straight=0.1), tmp_path)) == 1


def test_a_loss_that_falls_is_silent(tmp_path: Path) -> None:
    assert found(RULE, CREEPING.but(loss=falling(300)), tmp_path) == []


def test_a_training_that_converged_before_is_silent(tmp_path: Path) -> None:
    assert found(RULE, CREEPING.but(loss=flat(300, 0.01), logits=30.0), tmp_path) == []


def test_first_layers_alone_are_not_the_rate(tmp_path: Path) -> None:
    assert found(RULE, CREEPING.but(update=lambda step, layer: 10.0 ** (layer - 7)), tmp_path) == []


def test_a_network_that_died_is_not_the_rate(tmp_path: Path) -> None:
    died: ByLayer = lambda step, layer: 0.5 if step < 5 else 1e-9  # noqa: E731
    assert found(RULE, CREEPING.but(update=died), tmp_path) == []
    assert found(RULE, CREEPING.but(update=steps(0.0)), tmp_path / "no gradient") == []


def test_a_rate_of_zero_is_named(tmp_path: Path) -> None:
    (finding,) = found(RULE, CREEPING.but(update=steps(0.0), rate=lambda step: 0.0), tmp_path)
    assert "zero" in finding.causes[0]


def test_the_end_of_a_decay_does_not_count(tmp_path: Path) -> None:
    decaying = Training(
        loss=falling(400, floor=1.9), update=lambda step, layer: 0.005 if step < 150 else 1e-7, straight=0.9
    )
    assert found(RULE, decaying.but(rate=lambda step: 0.1 if step < 150 else 1e-6), tmp_path) == []


def test_a_regression_whose_predictions_do_not_move(tmp_path: Path) -> None:
    names = ("prediction_min", "prediction_max", "target_min", "target_max")
    columns = dict(zip(names, (-0.05, 0.05, -1.0, 1.0), strict=True)) | {"loss": flat(200, 1.0), "lr": [[0.1]] * 200}
    layers = {
        f"{layer}.weight": {
            "grad_norm": [1.0] * 200,
            "param_norm": [10.0] * 200,
            "update_norm": [1e-4] * 200,
            "distance": [1e-4 * step for step in range(200)],
        }
        for layer in range(3)
    }
    run = open_run(write_run(tmp_path, columns, layers, events=(loss_input("MSELoss"),)))
    assert [finding.code for finding in RULE.detect(run)] == ["STP002"]


@pytest.mark.parametrize(("straight", "severities"), [(0.9, ["note"]), (0.5, [])])
def test_one_that_leads_straight_on_but_slowly_is_noted(tmp_path: Path, straight: float, severities: list[str]) -> None:
    slow = CREEPING.but(loss=[CHANCE * (1 - 0.4 * step / 300) for step in range(300)], update=steps(1e-3))
    assert [finding.severity for finding in found(RULE, slow.but(straight=straight), tmp_path)] == severities


@pytest.mark.parametrize(("ratio", "severities"), [(1e-5, ["note"]), (1e-3, [])])
@pytest.mark.parametrize("turns", [False, True])
def test_an_optimizer_whose_loss_does_not_tell(
    tmp_path: Path, ratio: float, severities: list[str], *, turns: bool
) -> None:
    """Of a policy, whose loss is negative, or of a generator, whose loss need not fall."""
    told = {"steps": {"optimizer": [step % 2 for step in range(300)]}} if turns else {"loss": flat(300, -1.0)}
    training = CREEPING.but(update=steps(ratio), **told)
    try:
        assert [finding.severity for finding in found(RULE, training, tmp_path)] == severities
    except NotApplicable:
        assert severities == []


def test_tight_clipping_speaks_for_the_rate(tmp_path: Path) -> None:
    (finding,) = found(RULE, CREEPING.but(steps={"grad_norm_clipped": 1e-6}), tmp_path)
    assert any("clipped" in sentence for sentence in finding.evidence.opposing)


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert found(RULE, Training(loss=flat(300), noise=0.3, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (CREEPING.but(loss=flat(60)), "fewer than 100 steps"),
        (CREEPING.but(rate=lambda step: 1e-4 * (step + 1)), "full learning rate"),
        (CREEPING.but(events=(loss_input("TripletMarginLoss"),)), "how much there is to learn"),
        (CREEPING.but(loss=flat(300, -1.0), update=steps(1e-3)), "negative"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


UNKNOWN = CREEPING.but(
    loss=[20 * math.exp(-step / 300) for step in range(300)],
    update=steps(1.5e-3),
    noise=0.005,
    events=(loss_input("ElboLoss"),),
    manifest={"loss": None},
)


@pytest.mark.parametrize(
    ("changes", "severities"),
    [
        ({}, ["note"]),
        ({"straight": 0.4}, []),
        ({"update": steps(4e-3)}, []),
        ({"loss": falling(300, 20.0, rate=0.1)}, []),
    ],
    ids=["falls on", "to and fro", "large enough", "settled"],
)
def test_small_steps_straight_ahead_while_a_loss_of_unknown_scale_falls(
    tmp_path: Path, changes: dict[str, Any], severities: list[str]
) -> None:
    assert [finding.severity for finding in found(RULE, UNKNOWN.but(**changes), tmp_path)] == severities
