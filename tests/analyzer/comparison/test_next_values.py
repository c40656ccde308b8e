"""Coarse to fine: finer around the best, beyond an edge, and no advice where nothing can be told."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.comparison.next_values import Advice, Trial, advise


def trials(name: str, costs: dict[float, float | None], error: float = 0.001) -> list[Trial]:
    return [Trial({name: value}, cost, error) for value, cost in costs.items()]


def advice(name: str, costs: dict[float, float | None], error: float = 0.001) -> Advice:
    (found,) = advise(trials(name, costs, error))
    return found


def test_finer_around_the_best_on_a_logarithmic_scale() -> None:
    found = advice("lr", {0.001: 0.5, 0.01: 0.1, 0.1: 0.4})
    assert (found.kind, found.best) == ("finer", 0.01)
    assert found.next == (0.0022, 0.0046, 0.022, 0.046)
    near = advice("lr", {0.005: 0.5, 0.01: 0.1, 0.02: 0.4})
    assert near.next == (0.0071, 0.014)


def test_beyond_the_edge_where_the_best_lies_there() -> None:
    up = advice("lr", {0.001: 0.5, 0.01: 0.4, 0.1: 0.1})
    assert (up.kind, up.next) == ("beyond", (0.32, 1.0))
    assert "largest" in up.why
    down = advice("lr", {0.001: 0.1, 0.01: 0.4, 0.1: 0.5})
    assert (down.kind, down.next) == ("beyond", (0.0001, 0.00032))
    wide = advice("lr", {1e-6: 0.5, 0.1: 0.1})
    assert max(wide.next) == 1.0, "at most ten times as much"


def test_two_values_tell_a_direction_and_no_more() -> None:
    found = advice("lr", {0.02: 0.1, 0.6: 0.8})
    assert found.kind == "beyond"
    assert "two values" in found.why
    assert found.next == (0.002, 0.0063, 0.062)


def test_fine_enough_where_the_neighbours_are_near() -> None:
    found = advice("lr", {0.0085: 0.5, 0.01: 0.1, 0.012: 0.4})
    assert (found.kind, found.next) == ("fine enough", ())


def test_outcomes_within_their_errors_tell_nothing() -> None:
    found = advice("lr", {0.001: 0.50, 0.01: 0.49, 0.1: 0.51}, error=0.02)
    assert (found.kind, found.next) == ("insensitive", ())


def test_values_that_do_equally_well_are_searched_between() -> None:
    found = advice("lr", {0.001: 0.9, 0.01: 0.101, 0.1: 0.1, 1.0: 0.9}, error=0.01)
    assert (found.kind, found.next) == ("finer", (0.022, 0.046))
    assert "0.01 and 0.1 do equally well" in found.why


def test_a_value_that_broke_bounds_the_search() -> None:
    found = advice("lr", {0.01: 0.3, 0.1: 0.1, 1.0: None})
    assert (found.kind, found.best) == ("finer", 0.1)
    assert all(0.01 < value < 1.0 for value in found.next)
    assert advice("lr", {0.1: None, 1.0: None}).kind == "too little"


def test_whole_numbers_stay_whole_shares_below_one_and_momentum_near_one() -> None:
    width = advice("width", {16: 0.5, 64: 0.1, 256: 0.4})
    assert width.next == (32.0, 128.0)
    dropout = advice("dropout", {0.0: 0.5, 0.3: 0.4, 0.8: 0.1})
    assert all(0.8 < value <= 0.9 for value in dropout.next)
    momentum = advice("momentum", {0.5: 0.5, 0.9: 0.3, 0.99: 0.1})
    assert momentum.next == (0.9968, 0.999)
    assert advice("momentum", {0.9: 0.3, 0.99: 0.1, 0.999: 0.2}).next == (0.954, 0.978, 0.9954, 0.9978)


def test_nothing_at_all_may_do_best() -> None:
    found = advice("weight_decay", {0.0: 0.1, 0.01: 0.2, 0.1: 0.4})
    assert (found.best, found.next) == (0.0, (0.001, 0.0033))


def test_what_never_changed_alone_cannot_be_told_apart() -> None:
    both = [Trial({"lr": 10.0**-i, "decay": 10.0**-i}, float(i), 0.01) for i in range(3)]
    assert {item.kind for item in advise(both)} == {"too little"}
    crossed = [Trial({"lr": a, "decay": b}, abs(math.log10(a) + 1) + b, 0.01) for a in (0.01, 0.1, 1) for b in (0.1, 1)]
    assert {item.name: item.kind for item in advise(crossed)} == {"lr": "finer", "decay": "beyond"}


def test_the_learning_rate_comes_first() -> None:
    crossed = [Trial({"width": a, "base_lr": b}, a * b, 0.01) for a in (8.0, 16.0) for b in (0.1, 1)]
    assert [item.name for item in advise(crossed)] == ["base_lr", "width"]


def test_what_did_not_vary_gets_no_advice() -> None:
    assert advise([Trial({"lr": 0.1}, 1.0), Trial({"lr": 0.1}, 2.0)]) == ()
    assert advise([]) == ()


NAMES = st.sampled_from(["lr", "weight_decay", "momentum", "dropout", "width", "x"])
COSTS = st.dictionaries(
    st.floats(0, 0.999, allow_subnormal=False) | st.sampled_from([0.0, 1e-8]),
    st.none() | st.floats(-10, 10),
    min_size=2,
    max_size=8,
)


@given(NAMES, COSTS, st.sampled_from([0.0, 0.1, math.inf]))
def test_whatever_was_tried_advice_is_new_finite_and_in_order(
    name: str, costs: dict[float, float | None], error: float
) -> None:
    for found in advise(trials(name, costs, error)):
        assert all(math.isfinite(value) and value >= 0 and value not in found.tried for value in found.next)
        assert all(one < other for one, other in pairwise(found.next))
        assert bool(found.next) <= (found.kind in ("finer", "beyond"))


def test_advice_ends_in_the_best_value() -> None:
    """Following it, a search over five decades finds the minimum of a valley within a few rounds."""
    optimum, tried = 0.0137, {1e-4, 1e-3, 1e-2, 1e-1, 1.0}
    for _ in range(6):
        costs = {value: (math.log10(value) - math.log10(optimum)) ** 2 for value in sorted(tried)}
        found = advice("lr", dict(costs), error=0.0)
        tried |= set(found.next)
    assert found.kind == "fine enough"
    assert found.best == pytest.approx(optimum, rel=0.2)
