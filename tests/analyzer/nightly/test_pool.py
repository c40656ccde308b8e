"""Processes that die take no one along."""

from __future__ import annotations

import os
from pathlib import Path

from support.nights import fragile

from analyzer.config import Settings
from analyzer.nightly.pool import in_processes
from analyzer.nightly.work import Task


def task(name: str) -> Task:
    return Task(Path(name), name, Path("site"), "", "", None)


def test_a_process_that_dies_is_told_and_the_other_runs_are_reported() -> None:
    names = ["a", "dies", "b", "c"]
    done = {task.name: entry.problem for task, entry in in_processes(map(task, names), Settings(), 2, fragile)}
    assert sorted(done) == sorted(names)
    assert done["dies"].startswith("Its process died while it was judged")
    told = [done[name].split() for name in "abc"]
    assert all(pid != str(os.getpid()) for pid, _ in told)
    assert {threads for _, threads in told} == {str(max(1, (os.cpu_count() or 1) // 2))}
    assert "POLARS_MAX_THREADS" not in os.environ


def test_nothing_to_do_starts_nothing() -> None:
    assert list(in_processes([], Settings(), 2, fragile)) == []
