"""Record the zoo: every variant and seed of a part, into DIR/PROGRAM/VARIANT/seed-N, with a file seed-N.json beside it.

What is recorded already is left as it is. A run shows up in its place once it is over, whatever became of it.

    python tests/zoo/record.py --part tuning --seeds 5 --preset full -o DIR [--only PROGRAM[/VARIANT]] ...
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import inspect
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # run as a program, it knows neither the packages nor the zoo

from zoo.catalogue import PARTS  # noqa: E402
from zoo.workers import Ending, Task, carry_out, chosen  # noqa: E402

from recorder import Recorder  # noqa: E402
from recorder.instruments import PRESETS  # noqa: E402


@dataclass(frozen=True)
class Recording:
    """Where runs go, and how they are recorded."""

    directory: Path
    preset: str
    every: int
    workshops: Path

    def place(self, task: Task) -> Path:
        """The directory of a run that is over."""
        return self.directory / task.program.name / task.variant.name / f"seed-{task.seed}"

    def ending(self, task: Task) -> Path:
        """The file that says what became of a run."""
        return self.place(task).with_suffix(".json")

    def workshop(self, task: Task) -> Path:
        """The directory of a run while it lasts."""
        return self.workshops / self.place(task).relative_to(self.directory)

    def done(self, task: Task) -> bool:
        """Whether the run is recorded, with the code of the program and the arguments as they are now."""
        file = self.ending(task)
        if not file.exists():
            return False
        content = json.loads(file.read_text())
        return bool(
            content["change"] == plain(task.variant.change) and content["code"] == code(task.program.train.__module__)
        )

    def run(self, task: Task) -> float:
        """Record a run. Returns its outcome; raises what the program raises."""
        where = self.workshop(task)

        def record(model: Any, optimizer: Any, loss_fn: object | None = None, **options: Any) -> Recorder:
            options = {"hparams": {"seed": task.seed}} | options
            return Recorder(where, model, optimizer, loss_fn, preset=self.preset, every=self.every, **options)

        return task.program.train(record, task.seed, **task.variant.change)

    def keep(self, ending: Ending) -> None:
        """Put a run that is over in its place, and write down what became of it."""
        task, place = ending.task, self.place(ending.task)
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        if self.workshop(task).exists():
            self.workshop(task).replace(place)
        content = {
            "program": task.program.name,
            "variant": task.variant.name,
            "seed": task.seed,
            "fault": task.variant.fault,
            "twin": task.variant.twin,
            "change": plain(task.variant.change),
            "code": code(task.program.train.__module__),
            "preset": self.preset,
            "every": self.every,
            "outcome": ending.outcome,
            "error": ending.error,
            "seconds": round(ending.seconds, 2),
        }
        self.ending(task).write_text(json.dumps(content, indent=1))


def plain(change: Any) -> Any:
    """Arguments as JSON gives them back."""
    return json.loads(json.dumps(dict(change), default=str))


@cache
def code(module: str) -> str:
    """A digest of a program's file, but for comments and for its variants."""
    parsed = ast.parse(inspect.getsource(sys.modules[module]))
    parts = [ast.dump(node) for node in parsed.body if not ast.unparse(node).startswith("PROGRAM = ")]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what the arguments say. Returns 0, 1 where a healthy run failed, 2 where the arguments make no sense."""
    options = parser().parse_args(arguments)
    workshops = options.output / f".recording-{os.getpid()}"
    recording = Recording(options.output, options.preset, options.every, workshops)
    try:
        tasks = chosen(PARTS[options.part], options.seeds, options.only)
    except LookupError as error:
        print(f"record.py: {error.args[0]}", file=sys.stderr)
        return 2
    tasks = [task for task in tasks if options.again or not recording.done(task)]
    unsound = []
    for number, ending in enumerate(carry_out(tasks, recording.run, options.jobs), 1):
        recording.keep(ending)
        print(f"[{number}/{len(tasks)}] {ending}{'' if ending.sound else '  <- FAILED, though healthy'}", flush=True)
        unsound += [] if ending.sound else [ending]
    shutil.rmtree(workshops, ignore_errors=True)
    return 1 if unsound else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("record.py", description="Record the calibration zoo.")
    made.add_argument("--part", choices=sorted(PARTS), default="tuning")
    made.add_argument("--seeds", type=int, default=5, help="record seeds 0 to SEEDS - 1 of each variant (default 5)")
    made.add_argument("--preset", choices=sorted(PRESETS), default="full")
    made.add_argument("--every", type=int, default=16, help="steps between probes (default 16)")
    made.add_argument("--only", action="append", default=[], metavar="PROGRAM[/VARIANT]", help="may be repeated")
    made.add_argument("--again", action="store_true", help="also what is recorded already")
    made.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    made.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    return made


if __name__ == "__main__":
    sys.exit(main())
