from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer import wording
from analyzer.wording import THIN


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "\u2013"),
        (0.0, "0"),
        (2.3026, "2.303"),
        (2.0, "2"),
        (0.03125, "0.03125"),
        (0.00031, "3.1e\u22124"),
        (1.25e-7, "1.25e\u22127"),
        (12500.0, f"12{THIN}500"),
        (999999.0, f"1{THIN}000{THIN}000"),
        (3.5e12, "3.5e12"),
        (-4.25, "\u22124.25"),
        (math.nan, "nan"),
        (-math.inf, "\u2212inf"),
    ],
)
def test_numbers_read_well(value, words):
    assert wording.number(value) == words


@given(st.floats(-1e308, 1e308))
def test_four_digits_say_the_number_to_within_half_a_thousandth(value):
    said = float(wording.number(value).replace(THIN, "").replace("\u2212", "-"))
    assert said == pytest.approx(value, rel=5.1e-4)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.00034, f"340{THIN}\u00b5s"),
        (0.34, f"340{THIN}ms"),
        (12.5, f"12.5{THIN}s"),
        (200, f"3{THIN}min 20{THIN}s"),
        (7500, f"2{THIN}h 05{THIN}min"),
        (200_000, f"2{THIN}d 07{THIN}h"),
        (None, "\u2013"),
        (math.nan, "\u2013"),
    ],
)
def test_durations_use_the_units_that_fit(seconds, words):
    assert wording.duration(seconds) == words


def test_a_share_that_is_not_all_is_never_said_to_be():
    assert wording.percent(1.0) == f"100{THIN}%"
    assert wording.percent(0.9999) == f"> 99.9{THIN}%"
    assert wording.percent(0.0001) == f"< 0.1{THIN}%"
    assert wording.percent(0.0) == f"0{THIN}%"
    assert wording.percent(0.126) == f"12.6{THIN}%"


def test_steps_names_and_lists():
    assert wording.step_range(3, 3) == "step 3"
    assert wording.step_range(3, 2500) == f"steps 3 to 2{THIN}500"
    assert wording.step_range(None, None) == ""
    assert wording.sentence("non-finite-values") == "Non-finite values"
    assert wording.plural(1, "class") == "1 class"
    assert wording.plural(3, "class") == "3 classes"
    assert wording.listed(["a", "b", "c"]) == "a, b and c"
    assert wording.listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
