"""Which steps are probed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recorder.schedule import JUMP_STEPS, Schedule


def probed(schedule: Schedule, rates: list[float], first: int = 0) -> list[int]:
    return [first + i for i, rate in enumerate(rates) if schedule.probed(first + i, (rate,))]


@given(st.integers(1, 40), st.integers(0, 50), st.integers(0, 100))
def test_dense_at_the_start_then_every_nth(every: int, dense: int, first: int) -> None:
    found = probed(Schedule(every, dense, first), [0.1] * 200, first)
    assert found == [s for s in range(first, first + 200) if s < first + dense or s % every == 0]


def test_every_step_after_a_jump_of_the_rate() -> None:
    found = probed(Schedule(1000, 0), [0.1] * 50 + [0.01] * 50)
    assert found == [0, *range(50, 50 + JUMP_STEPS)]


def test_a_smooth_schedule_is_no_jump() -> None:
    assert probed(Schedule(1000, 0), [0.1 * 0.99**i for i in range(300)]) == [0]


def test_a_rate_of_zero_and_its_end_are_jumps_once() -> None:
    found = probed(Schedule(1000, 0), [0.0] * 40 + [0.1] * 60)
    assert found == [0, *range(40, 40 + JUMP_STEPS)]


@given(st.integers(1, 40), st.lists(st.integers(0, 2), min_size=1, max_size=7))
def test_optimizers_that_take_turns_are_all_met(every: int, turns: list[int]) -> None:
    schedule = Schedule(every, 0, several_optimizers=True)
    found = probed(schedule, [0.1] * (every * len(turns) * 60))
    assert {turns[s % len(turns)] for s in found} == set(turns)
    assert [s // every for s in found] == list(range(len(turns) * 60))


def test_an_instrument_with_an_interval_of_its_own_keeps_to_it() -> None:
    schedule = Schedule(16, 0, own={"alpha": 4})
    due = [s for s in range(40) if (schedule.probed(s, (0.1,)), schedule.due(s))[1]]
    assert due == list(range(0, 40, 4))
