"""Where two series part: not by noise, not by trifles, and at the right step."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from analyzer.comparison.separation import block_rows, parting


def series(values, steps=None) -> pl.DataFrame:
    values = np.asarray(values, dtype=float)
    return pl.DataFrame({"step": np.arange(len(values)) if steps is None else steps, "value": values})


def losses(seed: int, steps: int = 600, noise: float = 0.2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (0.1 + 2 * np.exp(-np.arange(steps) / 150)) * np.exp(noise * rng.standard_normal(steps))


def test_a_series_is_equal_to_itself_even_where_it_is_not_finite() -> None:
    values = losses(0)
    values[7] = math.nan
    found = parting(series(values), series(values), ratios=True)
    assert (found.outcome, found.steps, found.step) == ("equal", 600, None)


def test_repetitions_do_not_part() -> None:
    """False alarms of 800 pairs that differ by noise alone, some of it heavy-tailed or hanging together."""
    rng = np.random.default_rng(1)
    parted = 0
    for kind in range(4):
        for _ in range(200):
            one, other = rng.standard_normal((2, 400))
            if kind == 1:
                one, other = rng.standard_t(3, (2, 400))
            if kind == 2:
                one, other = (np.convolve(part, [0.5, 0.3, 0.2], "same") for part in (one, other))
            if kind == 3:
                one, other = 3 * np.exp(one), 3 * np.exp(other)
            parted += parting(series(one + 5), series(other + 5), ratios=kind == 3).outcome == "apart"
    assert parted <= 2


@pytest.mark.parametrize("begins", [0, 100, 300])
@pytest.mark.parametrize("factor", [1.6, 0.6])
def test_runs_part_where_one_begins_to_differ(begins: int, factor: float) -> None:
    one, other = losses(0), losses(1)
    other[begins:] *= factor
    found = parting(series(one), series(other), ratios=True)
    assert found.outcome == "apart"
    assert found.step is not None
    assert begins - 20 < found.step <= begins + 40
    assert found.one is not None
    assert found.other is not None
    assert found.other / found.one == pytest.approx(factor, rel=0.25)


def test_what_is_sure_but_small_does_not_part_them() -> None:
    """Without noise, ten per cent are sure; they are no news all the same."""
    values = losses(0, noise=0.0)
    assert parting(series(values), series(1.1 * values), ratios=True).outcome == "together"
    assert parting(series(values), series(1.5 * values), ratios=True).outcome == "apart"


def test_a_single_block_that_sticks_out_is_an_accident() -> None:
    one, other = losses(0), losses(1)
    other[200:220] *= 3
    assert parting(series(one), series(other), ratios=True).outcome == "together"


def test_a_run_that_breaks_parts_from_one_that_does_not() -> None:
    one, other = losses(0), losses(0)
    other[333:] = math.nan
    found = parting(series(one), series(other), ratios=True)
    assert (found.outcome, found.step, found.size) == ("apart", 333, math.inf)
    assert math.isnan(found.other or 0)


def test_they_part_before_one_breaks() -> None:
    one, other = losses(0), losses(0)
    other[300:] *= 50
    other[400:] = math.inf
    found = parting(series(one), series(other), ratios=True)
    assert found.step == 300


def test_only_steps_in_common_count() -> None:
    one, other = series(losses(0)), series(losses(1)[::16], np.arange(0, 600, 16))
    assert parting(one, other, ratios=True).steps == 38
    nothing = parting(one, series(losses(1)[:50], np.arange(1000, 1050)), ratios=True)
    assert (nothing.outcome, nothing.steps) == ("too few", 0)
    few = parting(series([1.0, 2, 3]), series([4.0, 5, 6]), ratios=False)
    assert few.outcome == "too few"


def test_differences_count_where_values_are_not_all_positive() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(-0.5, 0.3, 200), rng.normal(0.5, 0.3, 200)
    found = parting(series(one), series(other), ratios=True)
    assert found.step == 0
    assert found.one == pytest.approx(-0.5, abs=0.2)


def test_blocks_grow_with_the_series() -> None:
    assert [block_rows(count) for count in (8, 25, 120, 475, 10_000)] == [1, 4, 20, 20, 50]
