"""Measure what comes of the variants of the zoo, without recording, and label the faulty ones by it.

Writes outcomes-HALF.csv beside this file, and says how it came out. With --only, the other lines stay as they are.

    python tests/zoo/outcome.py [--half tuning] [--seeds 10] [--only PROGRAM[/VARIANT]] ...
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # run as a program, it knows neither the packages nor the zoo

from zoo.catalogue import HALVES  # noqa: E402
from zoo.labels import file_of, read_labels, read_outcomes, write_outcomes  # noqa: E402
from zoo.program import unrecorded  # noqa: E402
from zoo.workers import Task, carry_out, chosen  # noqa: E402


def run(task: Task) -> float:
    """The outcome of one run."""
    return task.program.train(unrecorded, task.seed, **task.variant.change)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments say. Returns 0, 1 where a healthy run failed, 2 where the arguments make no sense."""
    options = parser().parse_args(arguments)
    programs = HALVES[options.half]
    try:
        tasks = chosen(programs, options.seeds, options.only)
    except LookupError as error:
        print(f"outcome.py: {error.args[0]}", file=sys.stderr)
        return 2
    measured: dict[tuple[str, str], dict[int, float]] = {}
    unsound = 0
    for number, ending in enumerate(carry_out(tasks, run, options.jobs), 1):
        outcome = math.nan if ending.outcome is None else ending.outcome
        measured.setdefault((ending.task.program.name, ending.task.variant.name), {})[ending.task.seed] = outcome
        print(f"[{number}/{len(tasks)}] {ending}{'' if ending.sound else '  <- FAILED, though healthy'}", flush=True)
        unsound += not ending.sound
    new = {key: [by_seed[seed] for seed in sorted(by_seed)] for key, by_seed in measured.items()}
    write_outcomes(options.half, programs, read_outcomes(options.half) | new)
    labels = list(read_labels(options.half).values())
    print(f"{file_of(options.half)}: " + ", ".join(f"{labels.count(each)} {each}" for each in sorted(set(labels))))
    return 1 if unsound else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("outcome.py", description="Label the calibration zoo by its outcomes.")
    made.add_argument("--half", choices=sorted(HALVES), default="tuning")
    made.add_argument("--seeds", type=int, default=10, help="seeds of each variant (default 10)")
    made.add_argument("--only", action="append", default=[], metavar="PROGRAM[/VARIANT]", help="may be repeated")
    made.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    return made


if __name__ == "__main__":
    sys.exit(main())
