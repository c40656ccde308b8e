"""The trainings that are compared, and how their steps are timed in turn."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from problems import Problem

from recorder import Recorder
from recorder.instruments import PRESETS

EVERY = 16
"""Steps between probes."""
CURVATURE = 256
"""Steps between curvature steps."""


@dataclass(frozen=True)
class Arm:
    """A training with the recorder, or without one. `every`: steps between probes, NEVER for none."""

    preset: str | None = None
    every: int = EVERY
    alpha: int | None = None
    """Steps between the probes of alpha alone, where those differ."""

    @property
    def curvature(self) -> bool:
        """Whether some of its steps measure curvature, which makes them far dearer than others."""
        return self.every == EVERY and bool(self._sparse)

    @property
    def _sparse(self) -> list[str]:
        return [kind.name for kind in PRESETS[self.preset or "basic"] if kind.sparse]

    def settings(self, problem: Problem) -> dict[str, Any] | None:
        """Of its recorder, None without one. Curvature is measured once in a window."""
        if self.preset is None:
            return None
        own = dict.fromkeys(self._sparse, problem.window if self.curvature else NEVER)
        own |= {} if self.alpha is None else {"alpha": self.alpha}
        return {"preset": self.preset, "every": self.every, "dense_steps": 0, "instruments": own}

    def steps(self, problem: Problem) -> int:
        """Steps of one turn: fewer where all are alike, enough for a drain of the buffer on small problems."""
        return problem.window // 4 if self.every == 1 or self.alpha == 1 else problem.window


NEVER = 10**9
ARMS: dict[str, Arm] = {
    "plain": Arm(),
    "plain again": Arm(),
    "basic, unprobed": Arm("basic", NEVER),
    "basic, every 16": Arm("basic"),
    "economy, unprobed": Arm("economy", NEVER),
    "alpha, every step": Arm("economy", NEVER, alpha=1),
    "economy, every step": Arm("economy", 1),
    "economy, every 16": Arm("economy"),
    "business, every 16": Arm("business"),
    "full, every 16": Arm("full"),
}
"""`plain again` shows the noise."""
TABLE = ("plain", "plain again", "economy, every step", "economy, every 16", "business, every 16", "full, every 16")
"""The arms that are compared unless others are asked for."""


class Clock(Protocol):
    """Times the steps of a training."""

    def times(self, training: Iterator[None], steps: int) -> list[float]:
        """Seconds that each of the next steps takes."""


class HostClock:
    """By a timer of the host: `time.process_time` counts all threads of the process, `time.perf_counter` waits too."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer

    def times(self, training: Iterator[None], steps: int) -> list[float]:
        marks = [self._timer()]
        for _ in range(steps):
            next(training)
            marks.append(self._timer())
        return [after - before for before, after in pairwise(marks)]


class DeviceClock:
    """By events in the stream of a CUDA device, which make nobody wait; synchronised before and after."""

    def times(self, training: Iterator[None], steps: int) -> list[float]:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        torch.cuda.synchronize()
        marks[0].record()
        for mark in marks[1:]:
            next(training)
            mark.record()
        torch.cuda.synchronize()
        return [before.elapsed_time(after) / 1000 for before, after in pairwise(marks)]


@dataclass(frozen=True)
class Costs:
    """Costs in plain steps, by name of the arm (or of one of its steps), one number for each round."""

    plain: float
    """Seconds that a plain step takes, median."""
    ratios: dict[str, list[float]]


def costs(problem: Problem, names: Sequence[str], clock: Clock, device: torch.device) -> Costs:
    """Time the arms in turn, after a round that warms them up.

    Each is compared with the plain arm of the same round, so that a change in the load of the machine hits both.
    """
    names = ["plain", *(name for name in names if name != "plain")]
    rows = []
    with ExitStack() as stack:
        trainings = {name: training(problem, ARMS[name].settings(problem), device, stack) for name in names}
        for _ in range(problem.rounds + 1):
            row: dict[str, float] = {}
            for name, arm in trainings.items():
                row |= of_turn(name, clock.times(arm, ARMS[name].steps(problem)))
            rows.append(row)
    ratios = {name: [row[name] / row["plain"] for row in rows[1:]] for name in rows[0]}
    return Costs(statistics.median(row["plain"] for row in rows[1:]), ratios)


def of_turn(name: str, times: list[float]) -> dict[str, float]:
    """Seconds a step, averaged over as many steps as there are between two curvature steps.

    A window of those 256 is summed as it is. A shorter one, where steps are slow, begins with a curvature step too;
    its first 16 steps are weighed against the others as they would be in 256. That first step is told apart as well.
    """
    if not ARMS[name].curvature:
        return {name: statistics.fmean(times)}
    first, others = times[:EVERY], times[EVERY:]
    weight = EVERY / CURVATURE
    average = weight * statistics.fmean(first) + (1 - weight) * statistics.fmean(others)
    return {name: average, f"{name.split(',')[0]}, a curvature step": times[0]}


def training(
    problem: Problem, settings: Mapping[str, Any] | None, device: torch.device, stack: ExitStack
) -> Iterator[None]:
    """An endless training that yields after each step, with a recorder of these settings if there are any.

    The stack closes the recorder and deletes the run.
    """
    torch.manual_seed(0)
    model, (inputs, targets) = problem.model().to(device), problem.batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss_fn = torch.nn.CrossEntropyLoss()
    recorder = None
    if settings is not None:
        run = stack.enter_context(tempfile.TemporaryDirectory()) + "/run"
        recorder = stack.enter_context(Recorder(run, model, optimizer, loss_fn, strict=True, **settings))
    return loop(model, optimizer, loss_fn, inputs, targets, recorder)


def loop(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[..., torch.Tensor],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    recorder: Recorder | None,
) -> Iterator[None]:
    """The training loop of the README, with or without a recorder."""
    while True:
        optimizer.zero_grad()
        with recorder.step() if recorder else nullcontext() as step:
            loss = loss_fn(model(inputs), targets)
            if step is None:
                loss.backward()
            else:
                step.backward(loss)
        optimizer.step()
        yield


def lines(costs: Costs, beside: Callable[[str], str] = lambda name: "") -> Iterator[str]:
    """A line for each name: the median ratio, the quartiles, and what is known `beside` it."""
    for name, values in costs.ratios.items():
        ratios = sorted(values)
        quarter = len(ratios) // 4
        spread = f"quartiles {ratios[quarter]:.3f} {ratios[-quarter - 1]:.3f}"
        yield f"  {name:28} {statistics.median(ratios):7.3f}   {spread:26}   {beside(name)}".rstrip()
