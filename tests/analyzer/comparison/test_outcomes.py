from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import write_run

from analyzer.comparison.outcomes import Goal, goal, outcome, ranking
from analyzer.run import Run, open_run


def run(path: Path, losses: Any = (2.0, 1.0), target: dict[str, float] | None = None, **metrics: list[float]) -> Run:
    """A run with metrics `split_name`, logged at every tenth step."""
    rows = [(10 * i, *name.split("_", 1), value) for name, values in metrics.items() for i, value in enumerate(values)]
    columns = {key: [row[i] for row in rows] for i, key in enumerate(("step", "split", "name", "value"))}
    return open_run(write_run(path, {"loss": list(losses)}, metrics=columns, manifest={"target": target or {}}))


def test_an_accuracy_of_held_out_data_comes_before_a_loss_and_validation_before_test(tmp_path: Path) -> None:
    logged = {"valid_loss": [1.0, 0.5], "test_accuracy": [0.5, 0.9], "valid_accuracy": [0.6, 0.8], "train_acc": [1.0]}
    runs = [run(tmp_path / name, **logged) for name in "ab"]
    assert goal(runs) == Goal("valid", "accuracy", falls=False)
    assert str(goal(runs)) == "best valid accuracy"


def test_what_is_aimed_at_comes_first(tmp_path: Path) -> None:
    logged = {"valid_loss": [1.0], "valid_accuracy": [0.6]}
    runs = [run(tmp_path / name, target={"loss": 0.1}, **logged) for name in "ab"]
    assert goal(runs) == Goal("valid", "loss", falls=True)


def test_only_what_the_runs_have_in_common_ranks_them(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", valid_accuracy=[0.5], valid_loss=[1.0]), run(tmp_path / "b", valid_loss=[2.0])]
    assert goal(runs) == Goal("valid", "loss", falls=True)
    assert goal([runs[1], run(tmp_path / "c")]) == Goal("", None, falls=True)
    assert goal([open_run(write_run(tmp_path / name)) for name in "de"]) is None


def test_the_best_value_counts_with_its_step_and_the_scatter_of_its_neighbours(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = [*(0.9 + 0.01 * rng.standard_normal(40)).tolist(), 0.85]
    found = outcome(run(tmp_path / "a", valid_accuracy=values), Goal("valid", "accuracy", falls=False))
    assert (found.value, found.step, found.last) == (max(values), 10 * values.index(max(values)), 0.85)
    assert found.error == pytest.approx(0.01, rel=0.5)


def test_the_error_of_few_values_is_unknown_and_repeated_ones_still_have_one(tmp_path: Path) -> None:
    by = Goal("valid", "loss", falls=True)
    assert outcome(run(tmp_path / "a", valid_loss=[3.0, 1.0, 2.0]), by).error == math.inf
    assert 0 < outcome(run(tmp_path / "b", valid_loss=[0.9] * 12 + [0.8]), by).error < 0.1
    assert outcome(run(tmp_path / "c", valid_loss=[math.nan] * 9), by).value is None


def test_the_training_loss_is_that_of_the_last_tenth(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    losses = np.concatenate([np.linspace(3, 1, 900), 1 + 0.1 * rng.standard_normal(100)])
    found = outcome(run(tmp_path / "a", losses), Goal("", None, falls=True))
    assert found.value == pytest.approx(1.0, abs=0.05)
    assert found.error == pytest.approx(0.01, rel=0.8)
    broken = [*losses[:-1], math.nan]
    assert outcome(run(tmp_path / "b", broken), Goal("", None, falls=True)).value is None


def test_ranking_puts_what_reached_nothing_last(tmp_path: Path) -> None:
    by = Goal("valid", "accuracy", falls=False)
    logged: list[dict[str, list[float]]] = [{}, {"valid_accuracy": [0.5]}, {"valid_accuracy": [0.9]}]
    found = [outcome(run(tmp_path / str(i), **each), by) for i, each in enumerate(logged)]
    assert ranking(found, by) == [2, 1, 0]
    assert ranking(found, Goal("valid", "accuracy", falls=True)) == [1, 2, 0]
