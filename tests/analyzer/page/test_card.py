from __future__ import annotations

import pytest
from support.pages import bare_run, full_run
from support.runs import write_run

from analyzer.page.card import run_facts, schedule_words
from analyzer.run import open_run


def facts(run) -> dict[str, str]:
    return {fact.label: f"{fact.value}|{fact.detail}" for fact in run_facts(run)}


def test_the_card_names_what_ran_where_and_how(tmp_path):
    card = facts(full_run(tmp_path))
    assert card["Model"] == "Sequential|"
    assert card["Parameters"] == "1\u202f234|in 4 tensors"
    assert card["Steps"] == "200|steps 0 to 199"
    assert card["Ended"] == "Completed|"
    assert card["Trained for"].startswith("2\u202fs|")
    assert card["Started"] == "2026-01-02 03:04 UTC|"
    assert card["Optimizer"] == "SGD|lr 0.1, momentum 0.9"
    assert card["Loss"] == "CrossEntropyLoss|reduction mean"
    assert card["Recorded"] == "Preset economy|probed every step of the first 100, then every 16th step"
    assert card["Recorder"] == "0.1.0|python 3.11.7, torch 2.13.0"
    assert card["Command"] == "python train.py|"


def test_what_is_unknown_is_left_out(tmp_path):
    assert list(facts(bare_run(tmp_path))) == ["Parameters", "Steps", "Ended", "Recorder"]


def test_a_resumed_run_on_several_ranks_says_so(tmp_path):
    changes = {"rank_count": 8, "mode": "overfit-batch", "started": "yesterday"}
    path = write_run(tmp_path / "run", {"loss": [1.0] * 9}, manifest=changes)
    write_run(path, {"loss": [1.0] * 5}, manifest=changes, attempt=1, first_step=4)
    card = facts(open_run(path))
    assert card["Started"] == "yesterday|resumed: attempt 1, from step 4"
    assert card["Device"] == "cpu|8 ranks"
    assert card["Purpose"] == "One repeated batch|"


@pytest.mark.parametrize("value", [10**400, -(10**400), [10**400], float("nan"), {"a": 10**400}, [[]], "\x00"])
def test_odd_options_of_an_optimizer_do_not_keep_the_card_from_being_written(value, tmp_path):
    groups = [{"optimizer": 0, "type": "SGD", "lr": 0.1, "options": {"momentum": value, "nesterov": True}}]
    card = facts(open_run(write_run(tmp_path, {"loss": [1.0]}, manifest={"groups": groups})))
    assert "nesterov on" in card["Optimizer"]


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"dense_steps": 100, "every": 1}, "probed every step of the first 100, then every step"),
        ({"every": 22}, "probed every 22nd step"),
        ({"every": 113}, "probed every 113th step"),
        ({"every": None, "dense_steps": "many"}, ""),
        ({}, ""),
    ],
)
def test_the_schedule_in_words(schedule, words):
    assert schedule_words(schedule) == words
