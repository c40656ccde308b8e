"""Measure what comes of the variants of the zoo, without recording, and label the faulty ones by it.

Writes outcomes-PART.csv beside this file after each program. With --only, the other lines stay as they are.

    python tests/zoo/outcome.py [--part tuning] [--seeds 10] [--only PROGRAM[/VARIANT]] ...
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # run as a program, it knows neither the packages nor the zoo

from zoo.catalogue import PARTS  # noqa: E402
from zoo.labels import file_of, read_labels, read_outcomes, write_outcomes  # noqa: E402
from zoo.program import unrecorded  # noqa: E402
from zoo.workers import Ending, Task, carry_out, chosen  # noqa: E402


def run(task: Task) -> float:
    """The outcome of one run."""
    return task.program.train(unrecorded, task.seed, **task.variant.change)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments say. Returns 0, 1 where a healthy run failed, 2 where the arguments make no sense."""
    options = parser().parse_args(arguments)
    programs = PARTS[options.part]
    try:
        tasks = chosen(programs, options.seeds, options.only)
    except LookupError as error:
        print(f"outcome.py: {error.args[0]}", file=sys.stderr)
        return 2
    tasks.sort(key=lambda task: task.program.name)
    left = Counter(task.program.name for task in tasks)
    endings = []
    for ending in carry_out(tasks, run, options.jobs):
        endings.append(ending)
        print(
            f"[{len(endings)}/{len(tasks)}] {ending}{'' if ending.sound else '  <- FAILED, though healthy'}", flush=True
        )
        left[ending.task.program.name] -= 1
        if not left[ending.task.program.name]:
            write_outcomes(options.part, programs, read_outcomes(options.part) | by_variant(endings))
    labels = list(read_labels(options.part).values())
    print(f"{file_of(options.part)}: " + ", ".join(f"{labels.count(each)} {each}" for each in sorted(set(labels))))
    return 0 if all(ending.sound for ending in endings) else 1


def by_variant(endings: Sequence[Ending]) -> dict[tuple[str, str], list[float]]:
    """Outcomes seed by seed; NaN where a run raised or died."""
    found: dict[tuple[str, str], list[float]] = {}
    for ending in sorted(endings, key=lambda ending: ending.task.seed):
        key = ending.task.program.name, ending.task.variant.name
        found.setdefault(key, []).append(math.nan if ending.outcome is None else ending.outcome)
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("outcome.py", description="Label the calibration zoo by its outcomes.")
    made.add_argument("--part", choices=sorted(PARTS), default="tuning")
    made.add_argument("--seeds", type=int, default=10, help="seeds of each variant (default 10)")
    made.add_argument("--only", action="append", default=[], metavar="PROGRAM[/VARIANT]", help="may be repeated")
    made.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    return made


if __name__ == "__main__":
    sys.exit(main())
