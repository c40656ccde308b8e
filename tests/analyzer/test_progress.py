"""How far a training got, and the loss of a model that knows nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from support.runs import write_run
from support.synthetic import CHANCE, Training, falling, flat, loss_input

from analyzer.progress import (
    Progress,
    class_frequencies,
    given_probabilities,
    losses,
    measured,
    uninformed,
    zero_information,
)
from analyzer.run import Run, open_run


def run_of(path: Path, training: Training) -> Run:
    return open_run(training.write(path))


def progress(run: Run) -> Progress:
    found = measured(run)
    assert found is not None
    return found


def zero(run: Run) -> float:
    found = zero_information(run)
    assert found is not None
    return found.uniform


def test_chance_of_ten_classes(tmp_path: Path) -> None:
    run = run_of(tmp_path, Training())
    assert zero(run) == pytest.approx(CHANCE)
    assert progress(run).learned > 0.9
    assert uninformed(run, progress(run)) is False


@pytest.mark.parametrize("loss", ["CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss"])
def test_module_and_functional_losses(tmp_path: Path, loss: str) -> None:
    assert zero(run_of(tmp_path, Training(events=(loss_input(loss),)))) == pytest.approx(CHANCE)


def test_binary_losses_know_ln_2(tmp_path: Path) -> None:
    run = run_of(tmp_path, Training(loss=flat(50, math.log(2)), events=(loss_input("BCEWithLogitsLoss", (64, 1)),)))
    assert zero(run) == pytest.approx(math.log(2))


def test_other_losses_have_no_known_chance(tmp_path: Path) -> None:
    assert zero_information(run_of(tmp_path, Training(events=(loss_input("TripletMarginLoss"),)))) is None


def test_skewed_classes_lower_the_prior(tmp_path: Path) -> None:
    counts = [[90.0, 10.0]] * 50
    events = (loss_input("CrossEntropyLoss", (64, 2)),)
    run = run_of(tmp_path, Training(loss=flat(50, 0.33), events=events, steps={"class_counts": counts}))
    found = zero_information(run)
    assert found is not None
    assert found.uniform == pytest.approx(math.log(2))
    assert found.prior == pytest.approx(-0.9 * math.log(0.9) - 0.1 * math.log(0.1))
    assert class_frequencies(run) == pytest.approx([0.9, 0.1])
    assert uninformed(run, progress(run)) is True


def test_a_loss_among_the_samples_of_a_batch_depends_on_its_size(tmp_path: Path) -> None:
    """Of an epoch the last batch has 16 samples, and is the first that was seen."""
    small = [step % 5 == 0 for step in range(100)]
    steps = {
        "loss": [math.log(16 if last else 64) for last in small],
        "batch_size": [16 if last else 64 for last in small],
        "class_counts": [[1.0] * 16 if last else None for last in small],
    }
    events = (loss_input("cross_entropy", (16, 16)),)
    run = run_of(tmp_path / "among", Training(loss=flat(100), events=events, steps=steps))
    assert zero(run) == pytest.approx(math.log(64))
    assert losses(run)["loss"].to_list() == pytest.approx([math.log(64)] * 80)
    classes = steps | {"class_counts": [[1.0] * 16] * 100}  # sixteen classes, whatever the size
    other = run_of(tmp_path / "classes", Training(loss=flat(100), events=events, steps=classes))
    assert losses(other).height == 100


def test_a_handful_of_targets_are_no_frequencies(tmp_path: Path) -> None:
    assert class_frequencies(run_of(tmp_path, Training(loss=[1.0], steps={"class_counts": [[3.0, 1.0]]}))) == []


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_scaled_loss_is_known_by_its_logits(tmp_path: Path, scale: float) -> None:
    """Logits within 0.5 of each other cannot have a cross-entropy of 2 300: the first loss is chance."""
    run = run_of(tmp_path, Training(loss_scale=scale))
    assert zero(run) == pytest.approx(CHANCE * scale, rel=0.1)
    assert progress(run).learned > 0.9


def test_a_scaled_loss_of_wide_logits_is_not_known(tmp_path: Path) -> None:
    assert zero_information(run_of(tmp_path, Training(loss_scale=1e3, logits=30.0))) is None


def test_a_sum_counts_its_samples(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"loss": {"type": "CrossEntropyLoss", "reduction": "sum"}}
    run = run_of(tmp_path, Training(loss_scale=64.0, manifest=changes))
    assert zero(run) == pytest.approx(64 * CHANCE)


def test_negative_losses_have_no_floor(tmp_path: Path) -> None:
    assert measured(run_of(tmp_path, Training(loss=falling(100, 2.0, -1.0)))) is None


def test_one_loss_is_no_progress(tmp_path: Path) -> None:
    assert measured(open_run(write_run(tmp_path, {"loss": [1.0]}))) is None


def regression(path: Path, predictions: float) -> Run:
    columns = {
        "loss": flat(50, 1.0),
        "prediction_min": -predictions / 2,
        "prediction_max": predictions / 2,
        "target_min": -1.0,
        "target_max": 1.0,
    }
    return open_run(write_run(path, columns, events=(loss_input("MSELoss", (64, 1)),)))


@pytest.mark.parametrize(("predictions", "expected"), [(0.01, True), (0.3, True), (1.5, False)])
def test_a_regression_that_predicts_a_constant_knows_nothing(
    tmp_path: Path, predictions: float, *, expected: bool
) -> None:
    run = regression(tmp_path, predictions)
    assert uninformed(run, progress(run)) is expected


def test_of_an_unknown_loss_nothing_is_told(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, {"loss": flat(50, 1.0)}, manifest={"loss": None}))
    assert uninformed(run, progress(run)) is None


@pytest.mark.parametrize(("low", "sums", "expected"), [(0.0, 1.0, True), (-2.0, 1.0, False), (0.0, 5.0, False)])
def test_probabilities_in_place_of_logits(tmp_path: Path, low: float, sums: float, *, expected: bool) -> None:
    columns = {"prediction_sum_min": sums, "prediction_sum_max": sums, "prediction_min": low, "loss": [2.0, 2.0]}
    run = open_run(write_run(tmp_path, columns, events=(loss_input(),)))
    assert given_probabilities(run) is expected
