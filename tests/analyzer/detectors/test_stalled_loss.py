"""LOS001."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.synthetic import CHANCE, Training, falling, flat, found, loss_input

from analyzer.detectors.stalled_loss import StalledLoss
from analyzer.findings import NotApplicable

RULE = StalledLoss()
STALLED = Training(loss=flat(400))


def test_a_loss_that_stays_at_chance(tmp_path: Path) -> None:
    (finding,) = found(RULE, STALLED, tmp_path)
    assert finding.severity == "error"
    assert finding.value == pytest.approx(CHANCE, rel=0.02)
    assert finding.chart is not None
    assert finding.chart.reference == pytest.approx(CHANCE)


def test_one_that_fell_to_chance_and_stays(tmp_path: Path) -> None:
    (finding,) = found(RULE, STALLED.but(loss=[*flat(100, 9.0), *flat(300)], logits=20.0), tmp_path)
    assert finding.first_step == 100


def test_one_that_rises(tmp_path: Path) -> None:
    (finding,) = found(RULE, STALLED.but(loss=[CHANCE * (1 + step / 50) for step in range(400)]), tmp_path)
    assert "rises" in finding.message
    assert "sign" in finding.causes[0]


@pytest.mark.parametrize("level", [0.02, 0.5, 1.5, 2.1])
def test_a_plateau_below_chance_may_be_a_floor(tmp_path: Path, level: float) -> None:
    assert found(RULE, STALLED.but(loss=falling(400, floor=level, rate=0.1)), tmp_path) == []


def test_a_loss_that_falls_slowly_is_silent(tmp_path: Path) -> None:
    assert found(RULE, STALLED.but(loss=[CHANCE * (1 - 1e-4 * step) for step in range(400)]), tmp_path) == []


def test_a_plateau_that_ends_is_silent(tmp_path: Path) -> None:
    assert found(RULE, STALLED.but(loss=[*flat(300), *falling(100, rate=0.1)]), tmp_path) == []


def test_what_is_too_noisy_to_tell_is_silent(tmp_path: Path) -> None:
    """Batches of one: a fall of a few percent may hide in it."""
    for seed in range(5):
        slow = [CHANCE * (1 - 1e-4 * step) for step in range(400)]
        assert found(RULE, STALLED.but(loss=slow, noise=0.4, seed=seed), tmp_path / str(seed)) == []


def test_probabilities_in_place_of_logits_come_first(tmp_path: Path) -> None:
    sums = {"prediction_sum_min": 1.0, "prediction_sum_max": 1.0, "prediction_min": 0.0, "prediction_max": 0.2}
    (finding,) = found(RULE, STALLED.but(steps=sums), tmp_path)
    assert "Softmax" in finding.causes[0]


def test_a_decayed_rate_does_not_count(tmp_path: Path) -> None:
    """A loss that stands still because the rate is gone: the steps before are judged, and there are too few."""
    with pytest.raises(NotApplicable, match="too few"):
        found(RULE, STALLED.but(rate=lambda step: 0.1 if step < 60 else 1e-5), tmp_path)


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (STALLED.but(loss=flat(60)), "too few"),
        (STALLED.but(loss=flat(400, -1.0)), "negative"),
        (STALLED.but(events=(loss_input("TripletMarginLoss"),)), "floor"),
        (STALLED.but(steps={"optimizer": [step % 2 for step in range(400)]}), "optimizers"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def bounded(low: float, high: float, loss: list[float] | None = None) -> Training:
    """A regression whose predictions span that much, of targets between -1.5 and 2."""
    probed = [step < 100 or step % 16 == 0 for step in range(300)]
    values = {"prediction_min": low, "prediction_max": high, "target_min": -1.5, "target_max": 2.0}
    columns = {name: [value if at else None for at in probed] for name, value in values.items()}
    settled = falling(300, start=1.2, floor=0.7, rate=0.1)
    return Training(loss=loss or settled, steps=columns, events=(loss_input("MSELoss"),))


@pytest.mark.parametrize(
    ("low", "high", "layer"),
    [(0.0, 1.6, "ReLU"), (0.002, 0.97, "sigmoid"), (-0.99, 0.98, "tanh"), (-0.5, 0.99, "tanh")],
)
def test_an_output_layer_that_cannot_reach_the_targets(tmp_path: Path, low: float, high: float, layer: str) -> None:
    (finding,) = found(RULE, bounded(low, high), tmp_path)
    assert finding.severity == "warning"
    assert layer in finding.causes[0]


@pytest.mark.parametrize(
    "training",
    [
        bounded(-1.2, 1.6),
        bounded(0.3, 1.6),
        bounded(-0.7, 0.8),
        bounded(0.0, 1.6, falling(300, rate=0.004)),  # still falling
    ],
)
def test_predictions_that_are_not_held_back(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []
