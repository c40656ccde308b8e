from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from support.runs import write_run

from analyzer.charts.base import Figure, Missing
from analyzer.charts.error_decomposition import ErrorDecomposition
from analyzer.run import open_run


def drawn(path, target, metrics: Mapping[str, Mapping[str, float]]):
    logged = [(split, name, value) for name, splits in metrics.items() for split, value in splits.items()]
    columns = {
        "step": [9] * len(logged),
        "split": [split for split, _, _ in logged],
        "name": [name for _, name, _ in logged],
        "value": [value for _, _, value in logged],
    }
    run = open_run(write_run(path, {"loss": [1.0] * 10}, metrics=columns, manifest={"target": target}))
    return list(ErrorDecomposition().figures(run))


def terms(figure) -> dict[str, float]:
    assert isinstance(figure, Figure)
    return {row[4]: float(row[3].replace("\u2212", "-")) for row in figure.numbers.rows[1:]}


def test_the_terms_add_up_from_the_target_to_the_test(tmp_path):
    accuracy = {"train": 0.97, "valid": 0.93, "test-valid": 0.92, "test": 0.905}
    (figure,) = drawn(tmp_path, {"accuracy": 0.99}, {"accuracy": accuracy})
    assert terms(figure) == pytest.approx(
        {
            "avoidable bias": 0.02,
            "variance": 0.04,
            "distribution shift": 0.01,
            "overfitting to validation": 0.015,
        }
    )
    assert sum(terms(figure).values()) == pytest.approx(0.99 - 0.905)
    assert figure.note.startswith("Largest: variance, 0.04. Try, in this order: more data, normalisation layers")
    assert "accuracy" in figure.title


def test_of_a_loss_less_is_better_and_without_a_test_two_terms_are_left(tmp_path):
    (figure,) = drawn(tmp_path, {"loss": 0.1}, {"loss": {"train": 0.5, "valid": 0.45}})
    assert terms(figure) == pytest.approx({"avoidable bias": 0.4, "variance": -0.05})
    assert figure.note.startswith("Largest: avoidable bias, 0.4. Try, in this order: a larger model")


def test_the_last_finite_value_counts_and_a_target_that_is_met_is_said(tmp_path):
    splits, values = ["train", "train", "train", "valid"], [0.2, 0.995, math.nan, 0.995]
    metrics = {"step": [1, 2, 3, 3], "split": splits, "name": "accuracy", "value": values}
    run = open_run(write_run(tmp_path, {"loss": [1.0] * 4}, metrics=metrics, manifest={"target": {"accuracy": 0.99}}))
    figure = ErrorDecomposition().draw(run)
    assert figure.numbers.rows[1][:3] == ("training", "0.995", "2")
    assert figure.note == "No term adds to the error: the target is reached everywhere."


def test_each_metric_with_a_target_has_its_own(tmp_path):
    names = ("loss", "accuracy", "quux")
    figures = drawn(tmp_path, dict.fromkeys(names, 0.1), {name: {"train": 0.5, "valid": 0.6} for name in names})
    title = "Where the error comes from"
    assert [figure.title for figure in figures] == [f"{title}: loss", f"{title}: accuracy"]


@pytest.mark.parametrize(
    ("target", "metrics", "reason"),
    [
        ({}, {"loss": {"train": 1.0, "valid": 1.0}}, "names no target"),
        ({"loss": "low"}, {"loss": {"train": 1.0, "valid": 1.0}}, "names no target"),
        ({"loss": 0.1}, {"loss": {"train": 1.0}}, "was not logged"),
        ({"quux": 0.1}, {"quux": {"train": 1.0, "valid": 1.0}}, "does not tell"),
    ],
)
def test_why_there_is_none(tmp_path, target, metrics, reason):
    (missing,) = drawn(tmp_path, target, metrics)
    assert isinstance(missing, Missing)
    assert reason in missing.reason
