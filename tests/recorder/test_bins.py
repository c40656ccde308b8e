"""Bins by the bits of numbers, against bisection among the edges."""

from __future__ import annotations

import bisect
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recorder.bins import Bins, bins_of
from recorder.entry_counts import ENTRY_BINS, JOINT_ENTRY_BINS, PARAMETER_BINS

ALL = [ENTRY_BINS, JOINT_ENTRY_BINS, PARAMETER_BINS]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NUMBERS = st.floats(allow_nan=False) | st.builds(math.ldexp, st.sampled_from([1.0, -1.0]), st.integers(-30, 12))


def place(value: float, bins: Bins) -> int:
    """By bisection: a magnitude on an edge belongs to the bin further out, on either side of zero."""
    edges, last = bins.edges(), len(bins) - 1
    found = min(bisect.bisect_right(edges, abs(value)) - 1, last)
    return found if value >= 0 else last - found


@pytest.mark.parametrize("bins", ALL, ids=["entries", "joint", "parameters"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(numbers=st.lists(NUMBERS, max_size=50))
def test_the_bin_of_a_number(bins: Bins, dtype: torch.dtype, numbers: list[float]) -> None:
    values = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    assert bins_of(values, bins).tolist() == [place(value, bins) for value in values.tolist()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_zero_is_in_the_middle_and_what_is_not_finite_is_outermost(dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, -0.0, 5e-324, math.inf, -math.inf, math.nan, -math.nan], dtype=dtype)
    zero, negative_zero, tiny, *others = bins_of(values, ENTRY_BINS).tolist()
    assert zero == negative_zero == tiny == len(ENTRY_BINS) // 2
    assert others[:2] == [66, 0]
    assert set(others[2:]) <= {0, 66}  # the sign of NaN says nothing


@pytest.mark.parametrize("bins", ALL, ids=["entries", "joint", "parameters"])
def test_edges_are_symmetric_and_ascend(bins: Bins) -> None:
    edges = bins.edges()
    assert len(edges) == len(bins) + 1
    assert edges == sorted(edges) == [-edge for edge in reversed(edges)]


def test_each_joint_bin_is_made_of_bins() -> None:
    assert set(JOINT_ENTRY_BINS.edges()) <= set(ENTRY_BINS.edges())


def test_values_keep_their_shape() -> None:
    assert bins_of(torch.ones(3, 2).T, PARAMETER_BINS).shape == (2, 3)
