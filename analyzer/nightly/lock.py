"""One nightly at a time writes a site. The lock goes with its process, however that ends."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import GlideslopeError

LOCK = ".nightly.lock"


@contextmanager
def locked(site: Path) -> Iterator[None]:
    """Holds the site. Raises GlideslopeError if another nightly does, or if the directory cannot be written."""
    try:
        site.mkdir(parents=True, exist_ok=True)
        file = (site / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise GlideslopeError(
            f"{site} cannot be written ({error.strerror or error}): name another directory."
        ) from None
    with file:
        if not _taken(file):
            raise GlideslopeError(f"{site} is being written by another nightly{_holder(file)}: wait for it to end.")
        file.truncate(0)
        json.dump({"host": socket.gethostname(), "pid": os.getpid()}, file)
        file.flush()
        yield


def _taken(file: IO[str]) -> bool:
    """Whether the lock is now ours. Where a file system knows no locks there is none to wait for."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _holder(file: IO[str]) -> str:
    """` (process 123 on node7)`, as far as it is known."""
    try:
        file.seek(0)
        holder = json.load(file)
        return f" (process {holder['pid']} on {holder['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
