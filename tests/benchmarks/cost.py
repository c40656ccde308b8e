"""What recording costs: CPU time of a recorded training step over that of a plain one.

    python tests/benchmarks/cost.py [--problem mlp] [--rounds 15]

One thread; the arms take turns in windows of steps, and the median over the rounds is printed. `plain again` is the
noise. Curvature is measured at every 256th step. 3c3d is slow: there a window of 32 steps holds a curvature step and
two probes, and the 16 steps from the curvature step on weigh 1 against 15 of the other 16, as in 256.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence

import torch
from arms import ARMS, TABLE, HostClock, costs, lines
from problems import PROBLEMS, Problem

COCKPIT: dict[str, dict[str, float]] = {
    "economy, every step": {"mlp": 101, "cnn": 5.3, "3c3d": 9.8},
    "economy, every 16": {"mlp": 9.5, "cnn": 1.57, "3c3d": 1.85},
    "business, every 16": {"mlp": 10, "cnn": 1.78, "3c3d": 2.31},
    "full, every 16": {"mlp": 31, "cnn": 3.6, "3c3d": 6.6},
    "business, a curvature step": {"mlp": 89, "cnn": 9.0, "3c3d": 18.9},
    "full, a curvature step": {"mlp": 430, "cnn": 61, "3c3d": 90},
}
"""The same measure of cockpit-for-pytorch 1.0.2 and its presets of these names, with torch 2.13 on two shared cores.

It measures curvature at every probe; a `curvature step` is one of its probes.
"""


def main() -> None:
    """Time the arms on the problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=[p.name for p in PROBLEMS])
    parser.add_argument("--rounds", type=int, help="turns of each arm, after the first; by default 15, or 5 on 3c3d")
    parser.add_argument("--window", type=int, choices=(32, 64, 128, 256), help="steps of a turn")
    parser.add_argument("--arms", nargs="+", metavar="NAME", choices=ARMS, default=TABLE, help=", ".join(ARMS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for problem in PROBLEMS:
        if options.problem in (None, problem.name):
            window, rounds = options.window or problem.window, options.rounds or problem.rounds
            report(dataclasses.replace(problem, window=window, rounds=rounds), options.arms)


def report(problem: Problem, arms: Sequence[str]) -> None:
    """Print the ratio of each arm to the plain one."""
    found = costs(problem, arms, HostClock(time.process_time), torch.device("cpu"))
    print(f"\n{problem.name}: a plain step takes {1000 * found.plain:.2f} ms; {problem.rounds} rounds")
    for line in lines(found, lambda name: beside(name, problem.name)):
        print(line)


def beside(name: str, problem: str) -> str:
    """What Cockpit costs."""
    known = COCKPIT.get(name, {}).get(problem)
    return "" if known is None else f"Cockpit {known:g}"


if __name__ == "__main__":
    main()
