"""The run and end files of a run directory, and what to say of a directory that is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from recorder import schema

from .errors import RunError
from .jsonfile import REMEDY
from .manifest import EndFile, Manifest, read_end, read_manifest

T = TypeVar("T")

FIRST = schema.run_file_name(0)
"""The run file that every run begins with: what a directory is known by."""
GIVE = f"give the directory that the recorder wrote (it holds {FIRST})"
"""What helps against a path to something else."""


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
    if not root.is_dir():
        raise RunError(_no_directory(root))
    names = sorted(path for path in root.iterdir() if path.is_file())
    run_files = sorted((path for path in names if is_run_file(path)), key=_attempt)
    if not run_files:
        raise RunError(_no_run(root))
    newest = read_manifest(run_files[-1])
    problems: list[str] = []
    older = [item for path in run_files[:-1] if (item := _or_problem(read_manifest, path, problems))]
    end_files = [path for path in names if schema.END_FILE.fullmatch(path.name)]
    ends = [end for path in end_files if (end := _or_problem(read_end, path, problems))]
    strangers = [item for item in older if item.run_id != newest.run_id]
    problems += [
        f"{root / schema.run_file_name(item.attempt)} belongs to another run: its attempt is left out."
        for item in strangers
    ]
    attempts = tuple(item for item in older if item not in strangers)
    return RunFiles((*attempts, newest), tuple(ends), tuple(problems))


def is_run_file(path: Path) -> bool:
    """Whether the name is that of a run file."""
    return schema.RUN_FILE.fullmatch(path.name) is not None


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
        if any(is_run_file(entry) for entry in entries):
            found.append(folder)
        else:
            waiting += [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
    return sorted(found)


def _attempt(run_file: Path) -> int:
    match = schema.RUN_FILE.fullmatch(run_file.name)
    return -1 if match is None else int(match["attempt"])


def _or_problem(read: Callable[[Path], T], path: Path, problems: list[str]) -> T | None:
    """What the reader makes of the file, or None with the reason added to the problems."""
    try:
        return read(path)
    except RunError as error:
        problems.append(str(error))
        return None


def _no_directory(root: Path) -> str:
    """What there is in place of a directory, and what to do."""
    if root.exists():
        around = _run_around(root)
        return f"{root} is a file: " + (f"did you mean {around}?" if around else f"{GIVE}.")
    if root.is_symlink():
        return f"{root} is a link to {root.readlink()}, which does not exist: mend the link, or {GIVE}."
    return f"{root} does not exist: {GIVE}."


def _run_around(path: Path) -> Path | None:
    """The run that a file or a folder belongs to, if it belongs to one."""
    around = [folder for folder in path.absolute().parents[:2] if any(map(is_run_file, folder.iterdir()))]
    return around[0] if around else None


def _no_run(root: Path) -> str:
    """Why a directory without a run file is none, and what to do."""
    if root.name in schema.TABLES and (around := _run_around(root)):
        return f"{root} holds the {root.name} of a run: did you mean {around}?"
    if not any(root.iterdir()):
        return f"{root} is empty: {GIVE}."
    odd = [path for path in root.iterdir() if is_run_file(path)]
    if odd:
        return f"{odd[0]} is no file: {REMEDY}."
    if any((root / table).is_dir() for table in schema.TABLES):
        return f"{root} has shards but no {FIRST}: {REMEDY}."
    below = runs_below(root)
    if below:
        names = ", ".join(str(path) for path in below[:3]) + (", …" if len(below) > 3 else "")
        which = f"one of the {len(below)} below it ({names})" if len(below) > 1 else names
        return f"{root} is not a run itself: did you mean {which}?"
    return f"{root} is not a run (no {FIRST} in it): {GIVE}."
