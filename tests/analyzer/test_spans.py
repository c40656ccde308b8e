"""Firing spans with hysteresis."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.spans import Span, firing_spans


def spans(pattern: str, **options: int) -> list[tuple[int, int]]:
    """First and last step of each span; x violates, ten steps between probes."""
    steps = pl.Series([10 * index for index in range(len(pattern))], dtype=pl.Int64)
    violated = pl.Series([mark == "x" for mark in pattern], dtype=pl.Boolean)
    return [(span.first_step, span.last_step) for span in firing_spans(steps, violated, **options)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("..........", []),
        ("xxxxxxxxxx", [(0, 90)]),
        ("..xxxx....", [(20, 50)]),
        (".x.x.x.x.x", []),  # never four of five
        ("..xxxx.xxxx...", [(20, 100)]),  # one probe does not end it
        ("xxxxx..........xxxxx", [(0, 40), (150, 190)]),
        ("", []),
    ],
)
def test_spans_are_entered_and_left_with_hysteresis(pattern: str, expected: list[tuple[int, int]]) -> None:
    assert spans(pattern) == expected


def test_a_short_series_is_judged_as_a_whole() -> None:
    assert spans("xxx") == [(0, 20)]
    assert spans("x.x") == []


def test_share_counts_the_probes_within() -> None:
    steps = pl.Series(range(8), dtype=pl.Int64)
    (span,) = firing_spans(steps, pl.Series([True, True, False, True, True, True, False, False]))
    assert span == Span(first_step=0, last_step=5, violations=5, probes=6)
    assert span.share == 5 / 6


@given(st.lists(st.booleans(), max_size=60))
def test_spans_are_apart_begin_and_end_with_violations(marks: list[bool]) -> None:
    steps = pl.Series(range(len(marks)), dtype=pl.Int64)
    found = firing_spans(steps, pl.Series(marks, dtype=pl.Boolean))
    for span in found:
        assert marks[span.first_step]
        assert marks[span.last_step]
        assert span.violations == sum(marks[span.first_step : span.last_step + 1])
        assert span.probes == span.last_step - span.first_step + 1
    assert all(before.last_step < after.first_step for before, after in pairwise(found))
