from __future__ import annotations

import numpy as np
import polars as pl

from analyzer.comparison.measures import SET, Measure
from analyzer.comparison.partings import first_words, separations, signs


def measure(name: str, *, ratios: bool = False) -> Measure:
    return Measure(name, ratios, lambda run: pl.DataFrame())


def noisy(level: float, seed: int, *, begins: int = 0, steps: int = 400) -> pl.DataFrame:
    """Noise around zero, and around `level` from `begins` on."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 0.3, steps) + level * (np.arange(steps) >= begins)
    return pl.DataFrame({"step": np.arange(steps), "value": values})


def test_the_earliest_comes_first_and_what_never_parts_last() -> None:
    measures = [measure(name) for name in ("late", "never", "early", "short")]
    series = {
        ("late", 0): noisy(0, 0),
        ("late", 1): noisy(2, 1, begins=200),
        ("never", 0): noisy(0, 2),
        ("never", 1): noisy(0, 3),
        ("early", 0): noisy(0, 4),
        ("early", 1): noisy(2, 5, begins=40),
        ("short", 0): noisy(0, 6, steps=5),
        ("short", 1): noisy(2, 7, steps=5),
    }
    found = separations(measures, series, [0, 1])
    assert [(item.measure.name, item.parting.outcome) for item in found] == [
        ("early", "apart"),
        ("late", "apart"),
        ("never", "together"),
        ("short", "too few"),
    ]
    (sentence,) = first_words(found, ["plain", "hot"])
    assert sentence.startswith("Early separates the runs first, in steps 40 to 59: ")
    assert sentence.endswith(" in hot.")


def test_a_measure_that_nobody_or_only_one_recorded_is_left_out() -> None:
    empty = noisy(0, 0, steps=0)
    assert separations([measure("x")], {("x", 0): noisy(0, 0), ("x", 1): empty}, [0, 1]) == ()


def test_what_is_set_is_no_sign() -> None:
    measures = [measure(SET), measure("loss")]
    series = {
        (SET, 0): noisy(0, 0),
        (SET, 1): noisy(5, 1),
        ("loss", 0): noisy(0, 2),
        ("loss", 1): noisy(2, 3, begins=99),
    }
    found = separations(measures, series, [0, 1])
    assert [item.measure.name for item in signs(found)] == ["loss"]
    assert next(first_words(found, ["a", "b"])).startswith("Loss separates the runs first")


def test_the_same_loss_by_steps_of_another_kind() -> None:
    series = {("loss", 0): noisy(0, 0), ("loss", 1): noisy(0, 1), ("alpha", 0): noisy(0, 2), ("alpha", 1): noisy(1, 3)}
    words = list(first_words(separations([measure("loss"), measure("alpha")], series, [0, 1]), ["a", "b"]))
    assert words[0].startswith("Alpha separates the runs first, in steps 0 to 19")
    assert words[1].startswith("The losses never part by more than their noise, but alpha does")


def test_what_repetitions_do_too_says_nothing_of_the_settings() -> None:
    """Runs 0 and 1 are repetitions; in `start` these part as well."""
    names = ("start", "loss")
    series = {
        ("start", 0): noisy(0, 0),
        ("start", 1): noisy(3, 1),
        ("start", 2): noisy(6, 2),
        ("loss", 0): noisy(0, 3),
        ("loss", 1): noisy(0, 4),
        ("loss", 2): noisy(2, 5, begins=200),
    }
    found = separations([measure(name) for name in names], series, [0, 0, 1])
    assert [(item.measure.name, item.repeated) for item in found] == [("loss", False), ("start", True)]
    assert next(first_words(found, ["a", "b", "c"])).startswith("Loss separates a and c first")


def test_what_settings_do_far_more_than_repetitions_still_tells() -> None:
    series = {("start", 0): noisy(0, 0), ("start", 1): noisy(1, 1), ("start", 2): noisy(9, 2)}
    (found,) = separations([measure("start")], series, [0, 0, 1])
    assert (found.apart, found.repeated) == (True, False)


def test_many_runs_are_compared_with_the_first_of_them() -> None:
    series = {("x", i): noisy(2.0 * (i == 5), i) for i in range(6)}
    (found,) = separations([measure("x")], series, list(range(6)))
    assert found.pair == (0, 5)


def test_equal_runs_are_said_to_be_equal() -> None:
    same = noisy(0, 0)
    words = list(first_words(separations([measure("x")], {("x", 0): same, ("x", 1): same}, [0, 1]), ["a", "b"]))
    assert words == ["All 1 instruments that could be compared read the same, to the last digit."]
    assert list(first_words((), ["a", "b"])) == ["The runs share too few steps to tell where they part."]
