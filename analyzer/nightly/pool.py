"""Work on many runs in several processes, of which some may die.

Processes are started anew, never forked: polars has threads, and a fork of a process with threads may lock up.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from ..config import Settings
from .search import portable
from .summary import Entry
from .work import Task, broken, carry_out, prepare

THREADS = "POLARS_MAX_THREADS"

DIED = "Its process died while it was judged: perhaps there was not enough memory, see `dmesg`; try it alone."


Job = Callable[[Task], Entry]


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(
    tasks: Iterable[Task], settings: Settings, jobs: int, job: Job = carry_out
) -> Iterator[tuple[Task, Entry]]:
    """Each task with what `job` makes of it, as they end. One whose process dies gets an entry that says so."""
    waiting, settings = deque(tasks), portable(settings)
    with _threads(max(1, cores() // max(1, jobs))):
        while waiting:
            suspects: list[Task] = []
            yield from _until_one_dies(waiting, suspects, job, settings, min(jobs, len(waiting)))
            for task in suspects:
                yield task, _alone(task, job, settings)


def _until_one_dies(
    waiting: deque[Task], suspects: list[Task], job: Job, settings: Settings, jobs: int
) -> Iterator[tuple[Task, Entry]]:
    """Works on what waits. Once a process dies, the tasks that were under way become suspects."""
    flying: dict[Future[Entry], Task] = {}
    pool = _pool(settings, jobs)
    try:
        while waiting or flying:
            while waiting and len(flying) < 2 * jobs:
                flying[pool.submit(job, waiting[0])] = waiting[0]
                waiting.popleft()
            finished, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in finished:
                entry = future.result()
                yield flying.pop(future), entry
    except BrokenProcessPool:
        suspects.extend(flying.values())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _alone(task: Task, job: Job, settings: Settings) -> Entry:
    """A task in a process of its own."""
    pool = _pool(settings, 1)
    try:
        return pool.submit(job, task).result()
    except BrokenProcessPool:
        return broken(task, DIED)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _pool(settings: Settings, jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=prepare, initargs=(settings,))


@contextmanager
def _threads(amount: int) -> Iterator[None]:
    """Processes that are started meanwhile share the cores instead of each using all of them."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = before or str(amount)
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
