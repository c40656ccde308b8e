"""Means of noisy series."""

from __future__ import annotations

import math
import random

import polars as pl
import pytest

from analyzer.noise import Mean, batch_mean, block_length, blocks


def series(values: list[float | None]) -> pl.DataFrame:
    return pl.DataFrame({"step": range(len(values)), "loss": values}, schema={"step": pl.Int64, "loss": pl.Float64})


def test_blocks_take_in_the_rest() -> None:
    made = blocks(series([1.0] * 20 + [3.0] * 25), "loss", 20)
    assert made["rows"].to_list() == [20, 25]
    assert made["first_step"].to_list() == [0, 20]
    assert made["last_step"].to_list() == [19, 44]
    assert made["mean"].to_list() == [1.0, 3.0]


def test_blocks_skip_what_was_not_measured() -> None:
    assert blocks(series([1.0, None, 3.0]), "loss", 3)["mean"].to_list() == [2.0]


def test_noise_is_neither_slope_nor_jump() -> None:
    chance = random.Random(0)
    steady = [0.1 * chance.gauss(0, 1) for _ in range(400)]
    sloped = [value + 0.01 * step + (5.0 if step > 200 else 0.0) for step, value in enumerate(steady)]
    for values in (steady, sloped):
        assert blocks(series(values), "loss", 400)["noise"][0] == pytest.approx(0.1, rel=0.2)


def test_one_outlier_does_not_lift_the_upper_quartile() -> None:
    made = blocks(series([1.0] * 19 + [1e6]), "loss", 20)
    assert made["mean"][0] > 1e4
    assert made["upper"][0] == 1.0


def test_block_length_grows_with_the_run() -> None:
    assert [block_length(count) for count in (10, 2000, 100_000)] == [20, 20, 1000]


def test_batch_means_see_through_autocorrelation() -> None:
    """The error of a random walk's mean is many times what independent values would have."""
    chance = random.Random(0)
    walk = [0.0]
    for _ in range(999):
        walk.append(walk[-1] + chance.gauss(0, 1))
    values = pl.Series(walk)
    independent = float(values.std()) / math.sqrt(len(walk))  # type: ignore[arg-type]
    assert batch_mean(values).error > 5 * independent


def test_error_of_independent_values() -> None:
    chance = random.Random(1)
    errors = [batch_mean(pl.Series([chance.gauss(0, 1) for _ in range(500)])).error for _ in range(50)]
    assert sum(errors) / len(errors) == pytest.approx(1 / math.sqrt(500), rel=0.15)


def test_few_values_prove_nothing() -> None:
    few = batch_mean(pl.Series([1.0] * 19))
    assert few.value == 1.0
    assert few.error == math.inf
    assert not Mean(100.0, 0.0).exceeds(few, 3)
