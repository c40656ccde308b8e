"""One writer an attempt and rank: a process claims them before it writes, and lets go when the run is over.

What a killed process leaves of its claim is in nobody's way: a claim whose process is gone does not count, and
`resume=True` goes on with the next attempt whatever was claimed.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass

from . import schema
from .directory import RunDirectory, RunExistsError

_ours: set[tuple[str, str]] = set()
"""Claims that this process holds: where, and by which name."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt of a rank that is this process's to write, until `release`."""

    directory: RunDirectory
    attempt: int
    rank: int

    @property
    def name(self) -> str:
        """Of the file that stands for it."""
        return schema.claim_file_name(self.attempt, self.rank)

    def release(self) -> None:
        """Let go. What a disk that refuses keeps is in nobody's way."""
        _ours.discard((self.directory.where, self.name))
        with suppress(OSError):
            self.directory.remove(self.name)


def exactly(directory: RunDirectory, attempt: int, rank: int) -> Claim:
    """The claim to this attempt. Raises RunExistsError where another writer has it, OSError as `prepare` does."""
    directory.prepare()
    claim = Claim(directory, attempt, rank)
    content = {"host": socket.gethostname(), "pid": os.getpid(), "token": uuid.uuid4().hex}
    if not directory.create(claim.name, json.dumps(content).encode()):
        raise _refused(directory, _claimed(directory, rank).get(attempt, ""))
    _ours.add((directory.where, claim.name))
    return claim


def after(directory: RunDirectory, attempt: int, rank: int, *, others: bool) -> Claim:
    """The claim to the first attempt after this one that nobody claimed; `others`: whatever else is being written.

    Raises RunExistsError where another process writes an attempt of this rank, unless `others`, and OSError.
    """
    held = _claimed(directory, rank)
    present = [holder for number, holder in held.items() if holder and number > attempt]
    if present and not others:
        raise _refused(directory, present[0])
    following = max([attempt, *held]) + 1
    try:
        return exactly(directory, following, rank)
    except RunExistsError:
        if not others:
            raise
    return after(directory, following, rank, others=True)


def _refused(directory: RunDirectory, holder: str) -> RunExistsError:
    return RunExistsError(
        f"{directory.where} is being written by {holder or 'another process'}: choose another directory, "
        "or pass resume=True to go on with that run"
    )


def _claimed(directory: RunDirectory, rank: int) -> dict[int, str]:
    """The attempts that were claimed for a rank, and who holds each in words; nobody ("") where its process is gone."""
    matches = [schema.CLAIM_FILE.fullmatch(name) for name in directory.names()]
    return {int(m["attempt"]): _holder(directory, m[0]) for m in matches if m and int(m["rank"]) == rank}


def _holder(directory: RunDirectory, name: str) -> str:
    """Who claimed, in words; "" if it is known to have ended."""
    if (directory.where, name) in _ours:
        return "another recorder of this process"
    content = directory.read_json(name) or {}
    host, pid = content.get("host"), content.get("pid")
    if host != socket.gethostname() or not isinstance(pid, int):
        return f"process {pid} on {host}" if content else "another process"
    return f"process {pid} of this machine" if pid != os.getpid() and _runs(pid) else ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs, and is somebody else's
        return True
    return True
