from __future__ import annotations

import pytest
from support.runs import write_run

from analyzer.run import open_run


def columns(path, **steps):
    return open_run(write_run(path, steps)).frame("steps", "pause", "throughput")


def test_pauses_lie_between_the_end_of_a_step_and_the_next_and_samples_are_counted_over_both(tmp_path):
    found = columns(tmp_path, time=[0.0, 1.0, 3.0], duration=[0.75, 0.5, 0.5], batch_size=[30, 30, 30])
    assert found["pause"].to_list() == [0.25, 1.5, None]
    assert found["throughput"].to_list() == [30.0, 15.0, None]


def test_a_clock_that_begins_anew_and_a_step_that_is_missing_leave_gaps(tmp_path):
    found = columns(tmp_path, step=[0, 1, 2, 5, 6], time=[8.0, 9.0, 0.0, 1.0, 2.0], duration=0.5, batch_size=10)
    assert found["pause"].to_list() == [0.5, None, None, 0.5, None]


def test_the_last_count_of_samples_stands_for_steps_that_were_not_looked_at(tmp_path):
    found = columns(tmp_path, time=[0.0, 1.0, 2.0, 3.0], duration=0.5, batch_size=[64, None, None, 32])
    assert found["throughput"].to_list() == pytest.approx([64.0, 64.0, 64.0, None])


def test_steps_that_overlap_do_not_pause_for_less_than_nothing(tmp_path):
    assert columns(tmp_path, time=[0.0, 1.0], duration=2.0, batch_size=1)["pause"].to_list() == [0.0, None]
