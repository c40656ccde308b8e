"""What recording costs: CPU time of a recorded training step over that of a plain one.

    python tests/benchmarks/cost.py [--problem mlp] [--windows 15]

One thread; the arms take turns in windows of a few steps, and the median over the windows is printed. `plain again` is
the noise. An arm that probes at no step is `basic, unprobed`; one that probes at each is `..., every step`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from problems import PROBLEMS, Problem

from recorder import Recorder

ARMS: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "plain again": None,
    "basic, unprobed": {"preset": "basic", "every": 10**9, "dense_steps": 0},
    "basic, every 16": {"preset": "basic", "dense_steps": 0},
    "economy, unprobed": {"preset": "economy", "every": 10**9, "dense_steps": 0},
    "economy, every 16": {"preset": "economy", "dense_steps": 0},
    "alpha, every step": {"preset": "economy", "every": 10**9, "dense_steps": 0, "instruments": {"alpha": 1}},
    "economy, every step": {"preset": "economy", "every": 1},
}


def main() -> None:
    """Time every arm on every problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=[p.name for p in PROBLEMS])
    parser.add_argument("--windows", type=int, default=15)
    parser.add_argument("--arms", nargs="+", metavar="NAME", choices=ARMS, default=list(ARMS), help="beside `plain`")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for problem in PROBLEMS:
        if options.problem in (None, problem.name):
            report(problem, options.windows, ["plain", *(arm for arm in options.arms if arm != "plain")])


def report(problem: Problem, windows: int, names: list[str]) -> None:
    """Print the ratio of each arm to the plain one."""
    with ExitStack() as stack:
        arms = {name: training(problem, ARMS[name], stack) for name in names}
        for _ in range(2):
            measured = {name: seconds(arm, problem.window) for name, arm in arms.items()}
        rows = []
        for _ in range(windows):
            measured = {name: seconds(arm, problem.window) for name, arm in arms.items()}
            rows.append({name: value / measured["plain"] for name, value in measured.items()})
    plain = 1000 * measured["plain"] / problem.window
    print(f"\n{problem.name}: a plain step takes {plain:.2f} ms; {windows} windows of {problem.window} steps")
    for name in names:
        ratios = sorted(row[name] for row in rows)
        quarter = len(ratios) // 4
        print(
            f"  {name:22} {statistics.median(ratios):6.3f}   quartiles {ratios[quarter]:.3f} {ratios[-quarter - 1]:.3f}"
        )


def training(problem: Problem, settings: dict[str, Any] | None, stack: ExitStack) -> Iterator[None]:
    """An endless training that yields after each step."""
    torch.manual_seed(0)
    model, (inputs, targets) = problem.model(), problem.batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss_fn = torch.nn.CrossEntropyLoss()
    recorder = None
    if settings is not None:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        recorder = stack.enter_context(Recorder(f"{folder}/run", model, optimizer, loss_fn, strict=True, **settings))
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


def seconds(arm: Iterator[None], steps: int) -> float:
    """CPU time of some steps, all threads of the process."""
    began = time.process_time()
    for _ in range(steps):
        next(arm)
    return time.process_time() - began


if __name__ == "__main__":
    main()
