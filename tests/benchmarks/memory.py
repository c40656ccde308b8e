"""What recording needs: peak memory of a training with the recorder over that of a plain one.

    python tests/benchmarks/memory.py [--problem 3c3d] [--steps 12] [--repeats 5]

Each arm runs in processes of its own; printed is the median over them, with the least and the most. As at the start of
a run every step is probed, but for the last two; every fifth measures curvature. Counted is the peak of the resident
memory beyond what the process had when everything was imported and a tiny model had been recorded, which makes it read
in what it needs of torch and of the libraries that write files; what that takes is printed first. With --cold it counts
too, in every arm: so Cockpit was measured (1531 for economy, 580 for plain, 349 of it imports and data, in MB).
`held` is what the recorder's tensors hold between two probes, for good. Needs Linux.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from arms import training
from problems import PROBLEMS, Problem

from recorder.instruments import PRESETS

ARMS: dict[str, str | None] = {"plain": None} | {preset: preset for preset in PRESETS}
CURVATURE = 5
"""Steps between curvature steps."""


def main() -> None:
    """Run every arm and print its peak, or run one of them and print what it used."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=[p.name for p in PROBLEMS], default="3c3d")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="count what a first recording needs of the libraries")
    parser.add_argument("--arms", nargs="+", metavar="NAME", choices=ARMS, default=list(ARMS), help=", ".join(ARMS))
    parser.add_argument("--one", choices=ARMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    problem = next(p for p in PROBLEMS if p.name == options.problem)
    if options.one:
        print(json.dumps(used(problem, ARMS[options.one], options.steps, options.cold)))
        return
    print(f"{problem.name}: {options.steps} steps, each probed but for two; MiB beyond imports")
    names = ["plain", *(name for name in options.arms if name != "plain")]
    found = [{name: apart(name, options) for name in names} for _ in range(options.repeats)]
    if not options.cold:
        once = statistics.median(each[name]["once"] for each in found for name in names) / 2**20
        print(f"  the first recording of a process: {once:.0f}, not counted below")
    for name in names:
        peaks, plain = ([each[arm]["peak"] / 2**20 for each in found] for arm in (name, "plain"))
        held = statistics.median(each[name]["held"] - each["plain"]["held"] for each in found) / 2**20
        typical, ratio = statistics.median(peaks), statistics.median(peaks) / statistics.median(plain)
        spread = f"({min(peaks):.0f}-{max(peaks):.0f})"
        print(f"  {name:10} {typical:6.0f} {spread:11} {ratio:5.2f} times plain   held {held:6.2f}")


def apart(arm: str, options: argparse.Namespace) -> dict[str, int]:
    """What an arm uses in a fresh process."""
    command = [sys.executable, __file__, "--one", arm, "--problem", options.problem]
    command += ["--steps", str(options.steps), "--threads", str(options.threads), *(["--cold"] if options.cold else [])]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(ended.stdout))


def used(problem: Problem, preset: str | None, steps: int, cold: bool) -> dict[str, int]:
    """Bytes: the peak of the resident memory beyond what is there at first, and what tensors hold between two probes.

    And what the first recording of a process takes once, unless `cold`.
    """
    before = resident("VmRSS")
    if not cold:
        record_tiny()
    once = resident("VmRSS") - before
    with ExitStack() as stack:
        run = training(problem, settings(preset, steps), torch.device("cpu"), stack)
        for _ in range(steps):
            next(run)
        return {"peak": resident("VmHWM") - before - once, "held": in_tensors(), "once": once}


def record_tiny() -> None:
    """A few steps of a model of ten parameters."""
    with ExitStack() as stack:
        tiny = Problem("tiny", lambda: torch.nn.Linear(4, 2), (8, 4), classes=2)
        run = training(tiny, settings("full", 8), torch.device("cpu"), stack)
        for _ in range(8):
            next(run)


def settings(preset: str | None, steps: int) -> dict[str, Any] | None:
    """Of the recorder: every step is probed but for the last two."""
    if preset is None:
        return None
    sparse = dict.fromkeys((kind.name for kind in PRESETS[preset] if kind.sparse), CURVATURE)
    return {"preset": preset, "every": 10**9, "dense_steps": steps - 2, "instruments": sparse}


def resident(name: str) -> int:
    """Resident memory of this process, in bytes: VmRSS now, VmHWM at its peak."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def in_tensors() -> int:
    """Bytes that all tensors of this process hold, each storage once."""
    gc.collect()
    storages = [t.untyped_storage() for t in gc.get_objects() if isinstance(t, torch.Tensor)]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


if __name__ == "__main__":
    main()
