"""`glideslope demo`: real trainings, recorded by `recorder.demo` in processes of their own, and a report of each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import recorder

from .config import Settings, choose
from .detectors import DETECTORS
from .directory import is_run_file
from .engine import TOOL, judge_run
from .errors import GlideslopeError
from .files import write_page
from .findings import RunResult
from .outputs.html import render_report
from .page.index import index_entry, render_index
from .run import open_run

REPORT = "report.html"
_NEEDS = {"torch": "torch", "pyarrow": "pyarrow", "sklearn": "scikit-learn"}


@dataclass(frozen=True, slots=True)
class Training:
    """A training of the demo, by the name of its run directory."""

    name: str
    description: str


def fly(directory: Path, show: Callable[[str], None]) -> str:
    """Records every training, writes its report and their index, and returns what to say at the end.

    `show` is told what is going on. Trainings that the demo recorded there before are only judged again. Raises
    GlideslopeError, before anything is written, where a run of somebody else's is in the way.
    """
    planned = trainings()
    before = {training.name for training in planned if recorded_before(training, directory)}
    rules = choose(DETECTORS, Settings())
    entries, lines = [], []
    for number, training in enumerate(planned, 1):
        again = " (recorded before: judged again)" if training.name in before else ""
        show(f"[{number}/{len(planned)}] {training.name}: {training.description}{again}")
        run = open_run(directory / training.name if again else record(training, directory))
        judged = judge_run(run, rules)
        write_page(Path(run.path) / REPORT, render_report(run, judged, tool=TOOL))
        entries.append(index_entry(run, judged, f"{run.name}/{REPORT}"))
        lines.append(f"  {run.name:<22}{_first_finding(judged)}")
    index = directory / "index.html"
    write_page(index, render_index(entries, title="glideslope demo", tool=TOOL))
    if before:
        lines += [
            "",
            f"Recorded before, and only judged again: {', '.join(sorted(before))}. Remove them to record anew.",
        ]
    return "\n".join([*lines, "", f"Open {index} in a browser: it lists the reports, and needs no network.", ""])


def _first_finding(judged: RunResult) -> str:
    if not judged.findings:
        return judged.verdict
    first = judged.findings[0]
    return f"{first.severity} {first.code} {first.name}"


def trainings() -> tuple[Training, ...]:
    """What `recorder.demo` can record. Raises GlideslopeError where the packages it needs are missing."""
    missing = [package for module, package in _NEEDS.items() if find_spec(module) is None]
    if missing:
        raise GlideslopeError(
            f"the demo records real trainings, which needs {', '.join(missing)}: pip install 'glideslope[demo]'."
        )
    lines = _recorder_demo("--list").splitlines()
    return tuple(Training(*line.split("\t", 1)) for line in lines if "\t" in line)


def record(training: Training, directory: Path) -> Path:
    """Records the training into its directory, and returns that.

    What an interrupted recording left is removed, if it was begun here. Raises GlideslopeError when it fails.
    """
    run_dir = directory / training.name
    with _removed_on_failure(run_dir):
        _recorder_demo(training.name, str(directory))
    return run_dir


def recorded_before(training: Training, directory: Path) -> bool:
    """Whether the demo recorded the training there.

    Raises GlideslopeError where what lies there is somebody else's run, or did not get to its end.
    """
    run_dir = directory / training.name
    if not run_dir.is_dir() or not any(is_run_file(path) for path in run_dir.iterdir()):
        return False
    run = open_run(run_dir)
    command = run.manifest.command or ""
    if "recorder.demo" not in command or run.manifest.hparams.get("training") != training.name:
        raise GlideslopeError(f"{run_dir} holds a run that the demo did not record: name another directory.")
    if run.status != "completed":
        raise GlideslopeError(
            f"{run_dir} holds a recording of the demo that did not get to its end: remove it, or name another "
            "directory."
        )
    return True


@contextmanager
def _removed_on_failure(run_dir: Path) -> Iterator[None]:
    new = not run_dir.exists()
    try:
        yield
    except BaseException:
        if new:
            shutil.rmtree(run_dir, ignore_errors=True)
        raise


def _recorder_demo(*arguments: str) -> str:
    """What `python -m recorder.demo` prints. Its own words are the error when it fails."""
    package = str(Path(recorder.__file__).resolve().parents[1])
    path = os.pathsep.join(part for part in (package, os.environ.get("PYTHONPATH")) if part)
    command = [sys.executable, "-m", "recorder.demo", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    if done.returncode:
        words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise GlideslopeError(f"`{' '.join(command[1:])}` failed: {words}")
    return done.stdout
