"""Admission to a run directory: which attempt this is, of which run, from which step on."""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import torch

from .claim import Claim, after, exactly
from .directory import RunDirectory, RunExistsError

PATIENCE = timedelta(seconds=60)
"""How long a rank waits to be told by rank 0, which may not record at all."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process's part of an attempt."""

    number: int
    run_id: str
    """Made by rank 0; empty on a rank that was not told it, and learns it from the run file."""
    first_step: int
    rank: int
    rank_count: int


def admit(directory: RunDirectory, resume: bool, first_step: int | None) -> tuple[Attempt, Claim]:
    """The attempt that may begin in a directory, and the claim of this process to write it.

    Raises RunExistsError where the directory holds a run, or another process writes one, and `resume` is false. Rank 0
    decides by what lies in the directory, and tells the other ranks, which may come later, through the store of their
    process group. Nobody waits for a rank that does not record.
    """
    rank, rank_count = ranks()
    if rank > 0:
        told = _told(directory, rank, rank_count)
        return (
            (told, exactly(directory, told.number, rank))
            if told
            else _alone(directory, resume, first_step, rank, rank_count)
        )
    attempt, claim = _decided(directory, resume, first_step, rank_count)
    store = _store()
    if store is not None:
        store.set(_key(directory), json.dumps(asdict(attempt)))
    return attempt, claim


def _decided(directory: RunDirectory, resume: bool, first_step: int | None, rank_count: int) -> tuple[Attempt, Claim]:
    attempts = _begun(directory, resume)
    claim = after(directory, attempts[-1] if attempts else -1, 0, others=resume)
    last = directory.last_step() if attempts else None
    begin = first_step if first_step is not None else (0 if last is None else last + 1)
    run_id = (directory.run_id() if attempts else "") or uuid.uuid4().hex
    return Attempt(claim.attempt, run_id, begin, 0, rank_count), claim


def _alone(
    directory: RunDirectory, resume: bool, first_step: int | None, rank: int, rank_count: int
) -> tuple[Attempt, Claim]:
    """The attempt of a rank that is not told: what it has recorded itself tells which."""
    attempts = _begun(directory, resume, rank)
    claim = after(directory, attempts[-1] if attempts else -1, rank, others=resume)
    return Attempt(claim.attempt, "", first_step or 0, rank, rank_count), claim


def _begun(directory: RunDirectory, resume: bool, rank: int | None = None) -> list[int]:
    """The attempts (of one rank) that lie here. Raises RunExistsError if there are any, unless `resume`."""
    attempts = directory.attempts(rank)
    if attempts and not resume:
        raise RunExistsError(
            f"{directory.where} holds a run already: choose another directory, or pass resume=True to go on with it"
        )
    return attempts


def _told(directory: RunDirectory, rank: int, rank_count: int) -> Attempt | None:
    """What rank 0 decided; None if it does not tell."""
    store = _store()
    if store is None:
        return None
    with suppress(RuntimeError, ValueError, TypeError):  # it waited in vain
        store.wait([_key(directory)], PATIENCE)
        return replace(Attempt(**json.loads(store.get(_key(directory)))), rank=rank, rank_count=rank_count)
    return None


def _key(directory: RunDirectory) -> str:
    return f"glideslope/{directory.where}"


def _store() -> Any:
    """The key-value store of the process group, None without one."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    with suppress(AttributeError, RuntimeError):
        return torch.distributed.distributed_c10d._get_default_store()
    return None


def ranks() -> tuple[int, int]:
    """This process's rank and the number of ranks: of the process group, or what the launcher says before it exists."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    if "MASTER_ADDR" in os.environ:
        with suppress(KeyError, ValueError):
            return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return 0, 1
