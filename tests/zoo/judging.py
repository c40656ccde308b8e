"""What judges say about recorded runs. Runs in worker processes, which need no torch and import none.

A *contender* is whatever judges a run: our rules, our rules with instruments left out, the rules of another tool.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from analyzer.config import Settings, choose
from analyzer.detectors import DETECTORS
from analyzer.engine import judge_run
from analyzer.findings import Finding
from analyzer.run import Run, open_run

OURS = "glideslope"
_READ = ("steps", "layers", "modules", "metrics", "events")
_CHUNK = 4  # runs that a worker takes at a time


@dataclass(frozen=True)
class Named:
    """One thing that a contender said. `root`: it was given as a cause, not as a symptom of one.

    `kinds`: the kinds of fault that it names, where they do not follow from the code (`program.KINDS`).
    """

    code: str
    severity: str
    root: bool = True
    first_step: int | None = None
    confidence: float | None = None
    message: str = ""
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """What a contender said about a run, the first cause first, each with its symptoms after it.

    `silent`: its rules that could not judge, with the reason. `failed`: those that crashed, with the exception.
    """

    contender: str
    program: str
    variant: str
    seed: int
    steps: int
    named: tuple[Named, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def run(self) -> str:
        """PROGRAM/VARIANT/seed-N."""
        return f"{self.program}/{self.variant}/seed-{self.seed}"

    def plain(self) -> dict[str, Any]:
        """As JSON writes it."""
        return asdict(self)


@dataclass(frozen=True)
class Said:
    """The same without the run that it is about."""

    named: tuple[Named, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


Contender = Callable[[Run], Said]


@dataclass(frozen=True)
class Place:
    """A recorded run of the zoo."""

    path: Path
    program: str
    variant: str
    seed: int


def places(directory: Path) -> list[Place]:
    """The recorded runs under DIRECTORY/PROGRAM/VARIANT/seed-N that hold a run."""
    found = sorted(path.parent for path in directory.glob("*/*/seed-*/run-a00.json"))
    return [Place(path, *path.parts[-3:-1], seed=int(path.name.removeprefix("seed-"))) for path in found]


def ours(select: Sequence[str] = ()) -> Contender:
    """Our rules with all their defaults; of `select`, codes or prefixes, only those."""
    rules = choose(DETECTORS, Settings(select=tuple(select)))

    def judge(run: Run) -> Said:
        result = judge_run(run, rules)
        states = {state: {s.code: s.reason for s in result.detectors if s.state == state} for state in _STATES}
        named = tuple(_named(result.findings))
        return Said(named, silent=states["not-applicable"], failed=states["failed"])

    return judge


_STATES = ("not-applicable", "failed")


def _named(findings: Iterable[Finding], root: bool = True) -> Iterator[Named]:
    for item in findings:
        yield Named(item.code, item.severity, root, item.first_step, item.confidence, item.message)
        yield from _named(item.explains, root=False)


def loaded(path: Path) -> Run:
    """The run with its tables in memory, which many contenders read column by column."""
    run = open_run(path)
    for name in _READ:
        run._tables[name] = run.table(name).collect().lazy()
    return run


def judge(place: Place, contenders: Mapping[str, Contender]) -> list[Judgement]:
    """What each contender says about one run."""
    run = loaded(place.path)
    judged = []
    for name, contender in contenders.items():
        started = time.perf_counter()
        said = contender(run)
        seconds = round(time.perf_counter() - started, 3)
        judged.append(
            Judgement(
                name,
                place.program,
                place.variant,
                place.seed,
                run.step_count,
                said.named,
                dict(said.silent),
                dict(said.failed),
                seconds,
            )
        )
    return judged


_CONTENDERS: dict[str, Contender] = {}


def _prepare(make: Callable[..., Mapping[str, Contender]], arguments: tuple[Any, ...]) -> None:
    _CONTENDERS.update(make(*arguments))


def _work(place: Place) -> list[Judgement]:
    return judge(place, _CONTENDERS)


def judge_all(
    where: Sequence[Place], make: Callable[..., Mapping[str, Contender]], arguments: tuple[Any, ...], jobs: int
) -> Iterator[list[Judgement]]:
    """What contenders say about runs, run by run. Each of the worker processes makes its own by `make(*arguments)`."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # read by the workers when they import polars: small tables, many runs
    spawn = multiprocessing.get_context("spawn")  # a forked polars may hang
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_prepare, initargs=(make, arguments)) as pool:
        yield from pool.map(_work, where, chunksize=_CHUNK)
