"""Which runs there are under a directory, and whether anything about a run has changed since it was last looked at."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from recorder import schema

from ..config import Settings


@dataclass(frozen=True, slots=True)
class Found:
    """The runs under a root as paths relative to it, sorted, and the directories that could not be searched."""

    runs: tuple[Path, ...]
    closed: tuple[Path, ...]


def find_runs(root: Path, site: Path) -> Found:
    """Every directory under `root`, itself included, that holds a run file. Links and the site are not followed.

    What lies within a run is not searched: a run holds no other.
    """
    runs: list[Path] = []
    closed: list[Path] = []
    waiting, own = [root], site.resolve()
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            closed.append(folder.relative_to(root))
            continue
        if any(schema.RUN_FILE.fullmatch(entry.name) for entry in entries):
            runs.append(folder.relative_to(root))
            continue
        below = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        waiting += [path for path in below if path.resolve() != own]
    return Found(tuple(sorted(runs)), tuple(sorted(closed)))


def fingerprint(run: Path, key: str) -> str:
    """What the report of a run depends on, as a short text: its files by name, size and time, and `key`.

    Raises OSError where the directory cannot be listed.
    """
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass"))
    for name, size, time in sorted(_files(run)):
        digest.update(f"\0{name}\0{size}\0{time}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def key_of(tool: str, settings: Settings) -> str:
    """What reports depend on beside the runs: the program's version, and the configuration wherever it stands."""
    content = {name: value for name, value in asdict(portable(settings)).items() if name != "source"}
    return json.dumps([tool, content], sort_keys=True, default=str)


def portable(settings: Settings) -> Settings:
    """The same settings in a form that can be sent to another process."""
    return Settings(
        select=settings.select,
        ignore=settings.ignore,
        require=settings.require,
        fail_on=settings.fail_on,
        rules={name: dict(options) for name, options in settings.rules.items()},
        source=settings.source,
    )


def _files(run: Path) -> Iterator[tuple[str, int, int]]:
    """The files that make up a run; reports and checkpoints that lie beside them do not count."""
    named = (schema.RUN_FILE, schema.END_FILE)
    for entry in os.scandir(run):
        if any(pattern.fullmatch(entry.name) for pattern in named):
            yield _told(entry, entry.name)
        elif entry.name in schema.TABLES and entry.is_dir():
            yield from (_told(shard, f"{entry.name}/{shard.name}") for shard in os.scandir(entry.path))


def _told(entry: os.DirEntry[str], name: str) -> tuple[str, int, int]:
    try:
        stat = entry.stat()
    except FileNotFoundError:  # an unfinished shard that got its name in between
        return name, -1, -1
    return name, stat.st_size, stat.st_mtime_ns
