from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.charts.binning import Span, bands, bands_of, bin_width, spreads

floats = st.floats(width=64)


@given(st.integers(0, 10**6), st.integers(0, 10**8), st.integers(1, 1000))
def test_the_width_is_the_smallest_of_the_ladder_that_gives_few_enough_bins(first, length, bins):
    width = bin_width(first, first + length, bins)
    leading = str(width).rstrip("0")
    assert leading in {"1", "2", "5"}
    assert math.ceil((length + 1) / width) <= bins
    narrower = width // 2 if leading != "5" else width // 5 * 2
    assert narrower == 0 or math.ceil((length + 1) / narrower) > bins


@given(st.lists(floats | st.none(), min_size=1, max_size=400), st.integers(1, 50))
def test_bands_keep_the_extremes_and_count_what_is_not_finite(values, bins):
    frame = pl.DataFrame({"step": range(len(values)), "x": values}, schema={"step": pl.Int64, "x": pl.Float64})
    binned = bands(frame, "x", Span(0, len(values) - 1), bins=bins)
    usable = [v for v in values if v is not None and math.isfinite(v) and abs(v) < 1e280]
    assert len(binned) <= bins
    assert binned["lo"].min() == (min(usable) if usable else None)
    assert binned["hi"].max() == (max(usable) if usable else None)
    assert binned["bad"].sum() == sum(v is not None for v in values) - len(usable)
    assert binned["rows"].sum() == sum(v is not None for v in values)
    assert binned["mid"].drop_nulls().is_finite().all()


def test_bins_follow_the_steps_value_so_that_sparse_and_dense_columns_line_up():
    steps = np.arange(0, 10_000)
    dense = bands(pl.DataFrame({"step": steps, "x": 1.0}), "x", Span(0, 9_999))
    sparse = bands(pl.DataFrame({"step": steps[::16], "x": 1.0}), "x", Span(0, 9_999))
    assert set(sparse["step"]) <= set(dense["step"])
    gap = bands(pl.DataFrame({"step": [0, 9_990], "x": 1.0}), "x", Span(0, 9_999))
    assert gap["step"].to_list() == [0, 9_980]


def test_a_bin_without_a_finite_value_breaks_the_line():
    binned = bands(pl.DataFrame({"step": [0, 1, 2], "x": [1.0, math.nan, 3.0]}), "x", Span(0, 2))
    assert binned["mid"].to_list() == [1.0, None, 3.0]
    assert binned["bad"].to_list() == [0, 1, 0]


def test_a_logarithmic_axis_leaves_out_zeros_and_counts_them():
    binned = bands(pl.DataFrame({"step": [0, 1, 2], "x": [1.0, 0.0, -3.0]}), "x", Span(0, 2), positive=True)
    assert binned["mid"].to_list() == [1.0, None, None]
    assert binned["zero"].to_list() == [0, 1, 1]


def test_series_are_binned_apart_and_rows_outside_the_span_take_no_part():
    frame = pl.DataFrame({"step": [0, 0, 5, 99], "series": ["a", "b", "a", "a"], "x": [1.0, 2.0, 3.0, 4.0]})
    binned = bands(frame, "x", Span(0, 9), by=("series",))
    assert binned.select("series", "step", "mid").rows() == [("a", 0, 1.0), ("a", 5, 3.0), ("b", 0, 2.0)]


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([1.0, 100.0], True),
        ([1.0, 10.0], False),
        ([0.0, 1.0, 1e6], True),
        ([-1.0, 1.0, 1e6], False),
        ([math.nan, math.inf], False),
        ([], False),
        ([1e-320, 1e270], True),
    ],
)
def test_a_wide_spread_above_zero_asks_for_a_logarithmic_axis(values, log):
    assert spreads(pl.Series(values, dtype=pl.Float64)) is log


def test_columns_that_are_binned_together_are_as_if_each_was_alone():
    frame = pl.DataFrame(
        {
            "step": range(40),
            "series": ["a", "b"] * 20,
            "x": [None if step % 3 else float(step - 9) for step in range(40)],
            "y": [math.nan if step > 30 else 2.0 * step for step in range(40)],
            "z": [None] * 39 + [math.inf],
        },
        schema_overrides={"z": pl.Float32},
    )
    together = bands_of(frame, ("x", "y", "z"), Span(0, 39), by=("series",), bins=5, positive=True)
    for column, binned in together.items():
        assert binned.equals(bands(frame, column, Span(0, 39), by=("series",), bins=5, positive=True))
    assert [binned.height for binned in together.values()] == [8, 8, 1]
