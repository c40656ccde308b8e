"""The run and end files of a run directory, and what to say of a directory that is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from recorder import schema

from .errors import RunError
from .jsonfile import REMEDY
from .manifest import EndFile, Manifest, read_end, read_manifest

T = TypeVar("T")

RUN_FILE = re.compile(r"run-a\d+\.json")
END_FILE = re.compile(r"end-a\d+-r\d+\.json")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The attempts of a run, oldest first (at least one), and how their ranks ended."""

    attempts: tuple[Manifest, ...]
    ends: tuple[EndFile, ...]
    problems: tuple[str, ...]


def read_directory(root: Path) -> RunFiles:
    """Reads the run and end files of a directory.

    Raises RunError if it is not a run, or if the run file of the newest attempt cannot be used. That of an older
    attempt is reported as a problem, like an end file.
    """
    if not root.exists():
        raise RunError(f"{root} does not exist: give the directory that the recorder wrote (it holds run-a00.json).")
    if not root.is_dir():
        raise RunError(f"{root} is a file: give the directory that the recorder wrote (it holds run-a00.json).")
    names = sorted(path for path in root.iterdir() if path.is_file())
    run_files = [path for path in names if RUN_FILE.fullmatch(path.name)]
    if not run_files:
        raise RunError(_no_run(root))
    run_files.sort(key=lambda path: int(path.stem.removeprefix("run-a")))
    newest = read_manifest(run_files[-1])
    problems: list[str] = []
    older = [item for path in run_files[:-1] if (item := _or_problem(read_manifest, path, problems))]
    ends = [end for path in names if END_FILE.fullmatch(path.name) and (end := _or_problem(read_end, path, problems))]
    strangers = [item for item in older if item.run_id != newest.run_id]
    problems += [
        f"{root / f'run-a{item.attempt:02d}.json'} belongs to another run: its attempt is left out."
        for item in strangers
    ]
    attempts = tuple(item for item in older if item not in strangers)
    return RunFiles((*attempts, newest), tuple(ends), tuple(problems))


def runs_below(root: Path, limit: int = 1000) -> list[Path]:
    """Directories below `root` that hold a run file, sorted; the search ends after `limit` directories."""
    found, waiting, seen = [], [root], 0
    while waiting and seen < limit:
        folder = waiting.pop()
        seen += 1
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        if any(RUN_FILE.fullmatch(entry.name) for entry in entries):
            found.append(folder)
        else:
            waiting += [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
    return sorted(found)


def _or_problem(read: Callable[[Path], T], path: Path, problems: list[str]) -> T | None:
    """What the reader makes of the file, or None with the reason added to the problems."""
    try:
        return read(path)
    except RunError as error:
        problems.append(str(error))
        return None


def _no_run(root: Path) -> str:
    """Why a directory without a run file is none, and what to do."""
    if not any(root.iterdir()):
        return f"{root} is empty: give the directory that the recorder wrote (it holds run-a00.json)."
    if any((root / table).is_dir() for table in schema.TABLES):
        return f"{root} has shards but no run-a00.json: {REMEDY}."
    below = runs_below(root)
    if below:
        names = ", ".join(str(path) for path in below[:3]) + (", …" if len(below) > 3 else "")
        return f"{root} is not a run itself, but {len(below)} lie below it: name them one by one ({names})."
    return f"{root} is not a run (no run-a00.json in it): give the directory that the recorder wrote."
