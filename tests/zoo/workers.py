"""Runs of the zoo in worker processes: each run has a process of its own, which it may end as it likes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch._dynamo  # optimizers import it when first used: once for all here, not once in each process
from zoo.program import Program, Variant

FORK = multiprocessing.get_context("fork")  # torch is imported once, in the parent, which never computes anything


@dataclass(frozen=True)
class Task:
    """One run to be made."""

    program: Program
    variant: Variant
    seed: int

    def __str__(self) -> str:
        return f"{self.program.name}/{self.variant.name} seed {self.seed}"


@dataclass(frozen=True)
class Ending:
    """What became of a task: its outcome, or the exception that it raised, or neither where its process was killed."""

    task: Task
    seconds: float
    outcome: float | None = None
    error: str | None = None

    @property
    def sound(self) -> bool:
        """Whether it ended as it may: only what is faulty is free to raise or to die."""
        return self.outcome is not None or self.task.variant.fault is not None

    def __str__(self) -> str:
        became = self.error or "killed" if self.outcome is None else f"{self.outcome:.4g}"
        return f"{self.task}: {became} ({self.seconds:.1f} s)"


def chosen(programs: Sequence[Program], seeds: int, only: Sequence[str]) -> list[Task]:
    """Tasks for all seeds of the variants, seed by seed. `only`: PROGRAM or PROGRAM/VARIANT; raises LookupError."""
    variants = [(p, v) for p in programs for v in p.variants]
    names = {p.name for p, _ in variants} | {f"{p.name}/{v.name}" for p, v in variants}
    if unknown := [each for each in only if each not in names]:
        raise LookupError(f"the zoo has no {', '.join(unknown)}")
    wanted = [(p, v) for p, v in variants if not only or p.name in only or f"{p.name}/{v.name}" in only]
    return [Task(p, v, seed) for seed in range(seeds) for p, v in wanted]


def carry_out(tasks: Sequence[Task], run: Callable[[Task], float], jobs: int) -> Iterator[Ending]:
    """Run the tasks, `jobs` at a time; yields endings as they come."""
    waiting = list(reversed(tasks))
    running: dict[Any, tuple[Task, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            task = waiting.pop()
            receiver, sender = FORK.Pipe(duplex=False)
            process = FORK.Process(target=_work, args=(run, task, sender))
            process.start()
            sender.close()  # so that the end of the process ends the pipe
            running[receiver] = task, process, time.perf_counter()
        ready: list[Any] = wait(list(running))
        for receiver in ready:
            task, process, started = running.pop(receiver)
            outcome, error = _received(receiver)
            process.join()
            yield Ending(task, time.perf_counter() - started, outcome, error)


def _work(run: Callable[[Task], float], task: Task, sender: Connection) -> None:
    torch.set_num_threads(1)
    try:
        result: tuple[float | None, str | None] = run(task), None
    except Exception as error:
        result = None, f"{type(error).__name__}: {error}"
    sender.send(result)


def _received(receiver: Any) -> tuple[float | None, str | None]:
    try:
        result: tuple[float | None, str | None] = receiver.recv()
    except EOFError:
        return None, None
    finally:
        receiver.close()
    return result
