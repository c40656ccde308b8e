"""Whole comparisons of synthetic trainings: nothing between equal ones, and what was changed where something was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.rules import finding
from support.runs import write_run
from support.synthetic import Training, falling, validated

from analyzer.comparison.build import Comparison, compare
from analyzer.comparison.tuning import advice_words, groups
from analyzer.config import Settings, choose
from analyzer.detectors import DETECTORS
from analyzer.engine import judge_run
from analyzer.findings import DetectorState, RunResult
from analyzer.run import Run, open_run


def judged(path: Path, training: Training) -> tuple[Run, RunResult]:
    run = open_run(training.write(path))
    return run, judge_run(run, choose(DETECTORS, Settings()))


def compared(path: Path, *trainings: Training) -> Comparison:
    pairs = [judged(path / f"run-{i}", training) for i, training in enumerate(trainings)]
    return compare([run for run, _ in pairs], [result for _, result in pairs])


def with_rate(rate: float, accuracy: float, seed: int = 0, **changes: Any) -> Training:
    group = {"optimizer": 0, "type": "SGD", "lr": rate, "options": {}}
    metrics = validated(lambda share: accuracy * min(1.0, 4 * share), noise=0.003, name="accuracy", seed=seed)
    manifest = {"groups": [group], "hparams": {"lr": rate, "seed": seed}}
    return Training(rate=lambda step: rate, metrics=metrics, manifest=manifest, seed=seed, **changes)


def test_two_identical_runs_show_no_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, Training(), Training())
    assert found.same
    assert found.differences == ()
    assert {item.parting.outcome for item in found.separations} == {"equal"}
    assert not any(row.differs for row in found.rules)
    assert found.statements == ("No difference: it is the same run twice.",)


def test_a_repetition_that_was_recorded_anew_shows_no_difference_either(tmp_path: Path) -> None:
    losses = {"loss": [*falling(100)], "grad_norm": 1.0}
    runs = [
        open_run(write_run(tmp_path / name, losses, run_id=name * 32, manifest={"started": started, "host": name}))
        for name, started in (("a", "2026-01-01T00:00:00+00:00"), ("b", "2027-01-01T00:00:00+00:00"))
    ]
    found = compare(runs, [judge_run(run, choose(DETECTORS, Settings())) for run in runs])
    assert found.same
    assert [item.group for item in found.differences] == ["Surroundings"]
    assert found.statements == (
        "No difference: set up alike, and judged alike.",
        "All 2 instruments that could be compared read the same, to the last digit.",
    )


def test_seeds_alone_make_no_other_set_up(tmp_path: Path) -> None:
    runs = [judged(tmp_path / str(i), with_rate(0.1, 0.9, seed=i))[0] for i in range(2)]
    other = judged(tmp_path / "other", with_rate(0.2, 0.9))[0]
    assert groups([*runs, other]) == [0, 0, 1]


def test_what_was_changed_where_it_shows_and_what_came_of_it(tmp_path: Path) -> None:
    slow = with_rate(0.001, 0.5, loss=falling(300, rate=0.001), alpha=lambda step: -0.95)
    found = compared(tmp_path, with_rate(0.1, 0.9), slow)
    assert not found.same
    assert {(item.name, item.values) for item in found.differences} >= {("lr", ("0.1", "0.001"))}
    assert found.statements[0] == "They differ in lr (0.1 and 0.001)."
    assert found.statements[1].startswith("Alpha separates the runs first, in steps 0 to ")
    assert found.statements[2].startswith("run-0 reaches the best valid accuracy, 0.9")
    apart = {item.measure.name for item in found.separations if item.apart}
    assert {"loss", "alpha", "valid accuracy"} <= apart


def test_rules_that_tell_the_runs_apart_come_first_with_the_gravest_they_found(tmp_path: Path) -> None:
    run = open_run(Training().write(tmp_path / "a"))
    states = (DetectorState("BBB001", "b", "passed"), DetectorState("CCC001", "c", "not-applicable", "short"))
    one = RunResult("a", "completed", 9, "fail", (finding("AAA001", explains=(finding("BBB001", "note"),)),), states)
    both = (finding("AAA001"), finding("CCC001", "warning"), finding("CCC001", "note"))
    other = RunResult("b", "completed", 9, "fail", both, states)
    found = compare([run, run], [one, other])
    assert [(row.code, row.cells) for row in found.rules] == [
        ("BBB001", ("note", "passed")),
        ("CCC001", ("not-applicable", "warning")),
        ("AAA001", ("error", "error")),
    ]


def test_the_next_learning_rates_to_try(tmp_path: Path) -> None:
    """Coarse to fine around the best of three, which were repeated with two seeds each."""
    tried = [(0.01, 0.7), (0.1, 0.9), (1.0, 0.5)]
    found = compared(tmp_path, *(with_rate(rate, best, seed) for rate, best in tried for seed in range(2)))
    assert found.tuning is not None
    assert found.tuning.columns == ("lr", "seed")
    assert found.tuning.rows[0][1][0] == "0.1"
    assert found.tuning.rows[-1][1][0] == "1"
    (advice,) = found.tuning.advice
    assert (advice.name, advice.kind, advice.next) == ("lr", "finer", (0.022, 0.046, 0.22, 0.46))
    assert advice_words(advice) == (
        "The best lies between values that were tried. Best so far: 0.1. Try 0.022, 0.046, 0.22 and 0.46 next."
    )
    assert any(line.startswith("Their seeds differ too") for line in found.statements)


def test_too_little_to_tell_is_said(tmp_path: Path) -> None:
    same = compared(tmp_path, with_rate(0.1, 0.9), with_rate(0.1, 0.8, loss=falling(300, rate=0.05)))
    assert same.tuning is not None
    assert "No hyperparameter differs" in same.tuning.note
    two = compared(tmp_path / "two", with_rate(0.1, 0.9), with_rate(0.2, 0.8))
    assert two.tuning is not None
    assert "too few to tell a trend" in two.tuning.note


@pytest.mark.parametrize("amount", [7, 9])
def test_of_many_runs_the_best_are_drawn(tmp_path: Path, amount: int) -> None:
    found = compared(tmp_path, *(with_rate(0.1 * (i + 1), 0.1 * (i + 1), loss=falling(60)) for i in range(amount)))
    assert found.drawn == tuple(range(amount - 6, amount))
    assert len(found.names) == amount
    assert {position for _, position in found.series} == set(found.drawn)
