"""Answers are kept run by run, for as long as the run lives."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from support.runs import write_run

from analyzer.memo import per_run
from analyzer.run import Run, open_run


@pytest.fixture
def asked() -> list[object]:
    return []


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(write_run(tmp_path / "run", {"loss": [1.0]}))


def test_each_question_is_computed_once_for_each_run(run: Run, tmp_path: Path, asked: list[object]) -> None:
    @per_run
    def answer(run: Run, number: int = 0, *, name: str = "") -> tuple[str, int, str]:
        asked.append((run.name, number, name))
        return run.name, number, name

    other = open_run(write_run(tmp_path / "other", {"loss": [1.0]}))
    for _ in range(2):
        assert answer(run) == ("run", 0, "")
        assert answer(run, 1) == ("run", 1, "")
        assert answer(run, name="x") == ("run", 0, "x")
        assert answer(other) == ("other", 0, "")
    assert len(asked) == 4


def test_two_functions_do_not_share_answers(run: Run) -> None:
    one, two = per_run(lambda run: 1), per_run(lambda run: 2)
    assert (one(run), two(run)) == (1, 2)


def test_nothing_is_an_answer_and_an_exception_is_none(run: Run, asked: list[object]) -> None:
    @per_run
    def nothing(run: Run) -> None:
        asked.append(None)

    @per_run
    def fails(run: Run) -> None:
        asked.append(None)
        raise ValueError("no")

    for _ in range(2):
        nothing(run)
    assert len(asked) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            fails(run)
    assert len(asked) == 3


def test_answers_go_with_the_run(tmp_path: Path) -> None:
    class Answer:
        pass

    keep = per_run(lambda run: Answer())
    run = open_run(write_run(tmp_path, {"loss": [1.0]}))
    answer = weakref.ref(keep(run))
    assert answer() is not None
    del run
    gc.collect()
    assert answer() is None
