"""GEN001."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.synthetic import CHANCE, Training, falling, flat, found, validated

from analyzer.detectors.overfitting import Overfitting
from analyzer.findings import NotApplicable
from analyzer.validation import falls, held_out

RULE = Overfitting()
TRAINED = Training(loss=falling(300, floor=0.001, rate=0.03))


def turning(share: float) -> float:
    """Falls from chance to 1 over a third of the run, and rises to 1.6."""
    return CHANCE - 3.9 * share if share < 1 / 3 else 1.0 + 0.9 * (share - 1 / 3)


def converging(share: float) -> float:
    """Falls with the training loss, and ends slightly above it."""
    return max(0.1, CHANCE * (1 - 3 * share)) + 0.02 * share


def course(shape: Any, **options: Any) -> Training:
    return TRAINED.but(metrics=validated(shape, **options))


def test_a_validation_loss_that_turns(tmp_path: Path) -> None:
    (finding,) = found(RULE, course(turning, noise=0.02), tmp_path)
    assert finding.severity == "warning"
    assert finding.first_step == pytest.approx(100, abs=30)
    assert "got worse" in finding.message


def test_an_accuracy_that_turns(tmp_path: Path) -> None:
    training = course(lambda share: 0.3 + (share if share < 0.4 else 0.6 - 0.5 * share), name="accuracy", noise=0.01)
    (finding,) = found(RULE, training, tmp_path)
    assert "Valid accuracy got worse" in finding.message
    assert any("rise" in sentence for sentence in finding.evidence.supporting)


def test_a_gap_that_stands(tmp_path: Path) -> None:
    (finding,) = found(RULE, course(lambda share: max(0.6, CHANCE * (1 - 3 * share)), noise=0.01), tmp_path)
    assert finding.severity == "note"
    assert "has stood at" in finding.message


def test_a_small_rise_after_a_convergence_is_silent(tmp_path: Path) -> None:
    assert found(RULE, course(converging, noise=0.01), tmp_path) == []


def test_a_rise_that_the_training_loss_makes_too_is_silent(tmp_path: Path) -> None:
    training = Training(loss=[2.0 * turning(step / 300) for step in range(300)])
    assert found(RULE, training.but(metrics=validated(turning)), tmp_path) == []


def test_a_metric_of_unknown_direction_or_of_the_training_data(tmp_path: Path) -> None:
    for options in ({"name": "temperature"}, {"split": "train"}):
        with pytest.raises(NotApplicable, match="was logged"):
            found(RULE, course(turning, **options), tmp_path / str(options))


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    """A validation on few samples, of a training at a floor and of one that goes on."""
    scattered = validated(lambda share: 0.8, noise=0.15, seed=seed)
    assert found(RULE, Training(loss=flat(300, 0.7), noise=0.1, metrics=scattered), tmp_path / "floor") == []
    slow = falling(300, floor=0.5, rate=0.01)
    assert found(RULE, Training(loss=slow, noise=0.1, metrics=scattered), tmp_path / "falling") == []


def test_not_applicable(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="by heart"):
        found(RULE, TRAINED.but(manifest={"mode": "overfit-batch"}), tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loss", True),
        ("val_loss", True),
        ("RMSE", True),
        ("perplexity", True),
        ("top-1 error", True),
        ("accuracy", False),
        ("Top1", False),
        ("roc_auc", False),
        ("F1", False),
        ("log_likelihood", False),
        ("temperature", None),
        ("learning_rate", None),
    ],
)
def test_the_direction_of_a_metric(name: str, expected: bool | None) -> None:
    assert falls(name) is expected


def test_splits_of_held_out_data() -> None:
    assert all(held_out(split) for split in ("valid", "val", "test", "test-valid", "dev", "val_2", "Validation"))
    assert not any(held_out(split) for split in ("train", "interval", "contest", "devices"))


def test_known_by_heart(tmp_path: Path) -> None:
    by_heart = TRAINED.but(metrics=validated(lambda share: min(0.6, 0.2 + share), name="accuracy", noise=0.01))
    (finding,) = found(RULE, by_heart, tmp_path)
    assert (finding.severity, finding.value) == ("warning", pytest.approx(0.4, abs=0.02))
    assert "known by heart" in finding.message


@pytest.mark.parametrize(
    "training",
    [
        TRAINED.but(metrics=validated(lambda share: min(0.9, 0.2 + share), name="accuracy")),
        Training(loss=falling(300, floor=0.5), metrics=validated(lambda share: min(0.6, 0.2 + share), name="accuracy")),
    ],
)
def test_data_that_are_hard_or_learned_are_silent(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize(("late", "fires"), [(3.0, True), (0.0, False)])
def test_likelihoods_may_be_below_zero(tmp_path: Path, late: float, *, fires: bool) -> None:
    """The density of training data grows without end; that of others does so too, or falls again."""
    density = Training(loss=[3.0 - 0.015 * step for step in range(300)], noise=0.01)
    logged = validated(lambda share: 3.0 - 4.5 * share if share < 0.3 else 1.65 + late * (share - 0.3), noise=0.02)
    assert bool(found(RULE, density.but(metrics=logged), tmp_path)) is fires
