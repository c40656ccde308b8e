"""What recording costs on a GPU: time of a step over that of a plain one, synchronisations, and peak memory.

    python tests/benchmarks/gpu.py [--problem resnet-50] [--rounds 15] [--device cpu]

Times are those between events in the device's stream; the arms take turns in windows of steps, as in `cost.py`, and
the median over the rounds is printed. Synchronisations are those that torch's debug mode tells of, over a window of
steps of which one is probed in 16, with the places that made them. Peak memory is what an arm allocates alone.

On a machine without CUDA it says so and exits with 2: nothing was measured. `--device cpu` goes through the same code
by the host's clock, on one thread; there are no synchronisations then, and `memory.py` measures the memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from arms import ARMS, TABLE, DeviceClock, HostClock, costs, lines, training
from problems import PROBLEMS, RESNET_50, Problem

ROOT = Path(__file__).parents[2]
WITHOUT = "This machine has no CUDA device: nothing was measured (--device cpu is a dry run)."
ALL = (*PROBLEMS, RESNET_50)
GPU_TABLE = (*TABLE[:2], "basic, every 16", *TABLE[2:])


def main() -> int:
    """Measure the arms on the problems. Exit code 2 where there is no such device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=[p.name for p in ALL])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, help="turns of each arm, after the first")
    parser.add_argument("--window", type=int, choices=(32, 64, 128, 256), help="steps of a turn")
    parser.add_argument("--arms", nargs="+", metavar="NAME", choices=ARMS, default=GPU_TABLE, help=", ".join(ARMS))
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print(WITHOUT)
        return 2
    torch.set_num_threads(1)
    print(torch.cuda.get_device_name() if device.type == "cuda" else "dry run on the CPU: these figures say nothing")
    for problem in ALL:
        if options.problem in (None, problem.name):
            window, rounds = options.window or problem.window, options.rounds or problem.rounds
            names = ["plain", *(name for name in options.arms if name != "plain")]
            report(dataclasses.replace(problem, window=window, rounds=rounds), names, device)
    return 0


def report(problem: Problem, names: Sequence[str], device: torch.device) -> None:
    """Print the cost of each arm, then what each waits for, and what it allocates."""
    on_gpu = device.type == "cuda"
    found = costs(problem, names, DeviceClock() if on_gpu else HostClock(time.perf_counter), device)
    print(f"\n{problem.name}: a plain step takes {1000 * found.plain:.2f} ms; {problem.rounds} rounds", flush=True)
    for line in lines(found):
        print(line)
    plain: Peak | None = None
    for name in names:
        peak = memory(problem, name, device)
        plain = plain or peak
        print(f"  {name:28} {peak.against(plain)}")
        waits = synchronisations(problem, name, device)
        print(f"  {'':28} {waits.total()} synchronisations in {problem.window} steps", flush=True)
        for place, count in waits.most_common():
            print(f"  {'':28} {count:5} at {place}")


@dataclasses.dataclass(frozen=True)
class Peak:
    """Bytes allocated on the device: most of all, and between two probes."""

    most: int
    held: int

    def against(self, plain: Peak) -> str:
        """In words, compared with the plain arm."""
        if not plain.most:
            return "memory not measured here"
        most, ratio = self.most / 2**20, self.most / plain.most
        return f"peak {most:.0f} MiB, {ratio:.2f} times plain; held for good {(self.held - plain.held) / 2**20:.1f} MiB"


def memory(problem: Problem, name: str, device: torch.device) -> Peak:
    """What an arm alone allocates in steps among which are two probes, one of curvature, and some without."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    before = allocated(device)
    with ExitStack() as stack:
        run = training(problem, ARMS[name].settings(problem), device, stack)
        for _ in range(20):
            next(run)
        most = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
        return Peak(most - before, allocated(device) - before)


def allocated(device: torch.device) -> int:
    """Bytes that tensors hold on the device now; 0 for the CPU, which does not count them."""
    return torch.cuda.memory_allocated() if device.type == "cuda" else 0


def synchronisations(problem: Problem, name: str, device: torch.device) -> Counter[str]:
    """How often a window of steps made the host wait for the device, by place in the code; steps before it warm up."""
    with ExitStack() as stack:
        run = training(problem, ARMS[name].settings(problem), device, stack)
        for _ in range(problem.window):
            next(run)
        with told_of_synchronisations(device) as places:
            for _ in range(problem.window):
                next(run)
    return Counter(places)


@contextmanager
def told_of_synchronisations(device: torch.device) -> Iterator[list[str]]:
    """A list that holds afterwards where the host waited for the device."""
    places: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        set_debug_mode(device, "warn")
        try:
            yield places
        finally:
            set_debug_mode(device, "default")
    places += [place(w) for w in caught if "synchronizing CUDA operation" in str(w.message)]


def set_debug_mode(device: torch.device, mode: str) -> None:
    """Whether torch tells of each operation that waits."""
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode(mode)


def place(told: warnings.WarningMessage) -> str:
    """File and line, short where it is ours."""
    path = Path(told.filename)
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{told.lineno}"


if __name__ == "__main__":
    sys.exit(main())
