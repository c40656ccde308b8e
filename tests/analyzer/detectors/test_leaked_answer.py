"""DAT008."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.runs import write_run
from support.synthetic import Training, falling, flat, found, loss_input

from analyzer.detectors.leaked_answer import LeakedAnswer
from analyzer.findings import Finding, NotApplicable
from analyzer.run import open_run

RULE = LeakedAnswer()
QUICK = Training(loss=falling(500, floor=0.005, rate=0.2))


def validated(path: Path, training: Training, losses: Sequence[float]) -> list[Finding]:
    """What the rule finds with these losses on validation data."""
    training.write(path)
    count = len(losses)
    metrics = {"step": list(range(count)), "split": ["valid"] * count, "name": ["loss"] * count, "value": list(losses)}
    write_run(path / "more", metrics=metrics)
    (path / "more" / "metrics").rename(path / "metrics")
    return list(RULE.detect(open_run(path)))


def test_too_good_too_soon(tmp_path: Path) -> None:
    (finding,) = validated(tmp_path, QUICK, [0.1, 0.01, 0.01])
    assert finding.severity == "warning"


def test_where_each_step_takes_all_of_the_data_a_note(tmp_path: Path) -> None:
    whole = QUICK.but(steps={"input_mean": 0.1, "input_std": 1.0, "input_absmax": 3.0})
    (finding,) = validated(tmp_path, whole, [0.1, 0.01, 0.01])
    assert finding.severity == "note"


def test_without_validation_a_note(tmp_path: Path) -> None:
    (finding,) = found(RULE, QUICK, tmp_path)
    assert finding.severity == "note"


def test_a_regression(tmp_path: Path) -> None:
    quick = Training(loss=falling(500, start=1.0, floor=0.002, rate=0.2), events=(loss_input("mse_loss", (64, 1)),))
    assert len(found(RULE, quick, tmp_path)) == 1


def test_a_start_that_was_far_off_makes_any_loss_small(tmp_path: Path) -> None:
    wide = {"prediction_min": -10.0, "prediction_max": 10.0, "target_min": 0.0, "target_max": 1.0}
    quick = Training(loss=falling(500, start=1.0, floor=0.002, rate=0.2), events=(loss_input("mse_loss", (64, 1)),))
    with pytest.raises(NotApplicable, match="far off"):
        found(RULE, quick.but(steps=wide), tmp_path)


@pytest.mark.parametrize(("rest", "severities"), [(0.002, ["note"]), (0.05, [])])
def test_a_regression_that_is_foretold_to_the_last_digit(tmp_path: Path, rest: float, severities: list[str]) -> None:
    slow = Training(loss=falling(500, start=1.0, floor=rest), events=(loss_input("mse_loss", (64, 1)),))
    assert [finding.severity for finding in validated(tmp_path, slow, [0.5, rest, rest, rest])] == severities


def test_tokens_may_take_longer(tmp_path: Path) -> None:
    quick = QUICK.but(loss=falling(500, floor=0.005, rate=0.04), steps={"batch_size": 4})
    assert len(found(RULE, quick, tmp_path / "tokens")) == 1
    assert found(RULE, quick.but(steps={"batch_size": 64}), tmp_path / "samples") == []


@pytest.mark.parametrize(
    "training",
    [
        Training(loss=falling(500, floor=0.005, rate=0.05)),  # soon, but not that soon
        Training(loss=falling(500, floor=0.1, rate=0.2)),  # soon, but not that good
        Training(loss=falling(120, floor=0.005, rate=0.2)),  # a short run has no time to be slow
        Training(loss=flat(500)),
    ],
)
def test_others_are_silent(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


def test_validation_that_does_not_agree_is_silent(tmp_path: Path) -> None:
    assert validated(tmp_path, QUICK, [1.0, 0.6, 0.7]) == []


def test_noise_is_silent(tmp_path: Path) -> None:
    for seed in range(5):
        noisy = Training(loss=falling(500, floor=0.4, rate=0.2), noise=0.6, seed=seed)
        assert found(RULE, noisy, tmp_path / str(seed)) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (QUICK.but(manifest={"mode": "overfit-batch"}), "one batch"),
        (QUICK.but(events=(loss_input("triplet_margin_loss"),)), "how much"),
        (QUICK.but(first_step=100), "already"),
        (QUICK.but(steps={"evaluations": 5}), "several passes"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
