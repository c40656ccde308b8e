"""Admission to a run directory: which attempt this is, of which run, from which step on."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import torch

from .directory import RunDirectory, RunExistsError


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process's part of an attempt."""

    number: int
    run_id: str
    """Made by rank 0; empty on the others, which learn it from the run file."""
    first_step: int
    rank: int
    rank_count: int


def admit(directory: RunDirectory, resume: bool, first_step: int | None) -> Attempt:
    """The attempt that may begin in a directory. Raises RunExistsError where it holds a run and `resume` is false."""
    rank, rank_count = ranks()
    attempts = directory.attempts()
    if attempts and not resume:
        raise RunExistsError(
            f"{directory.where} holds a run already: choose another directory, or pass resume=True to go on with it"
        )
    if not attempts:
        return Attempt(0, uuid.uuid4().hex if rank == 0 else "", first_step or 0, rank, rank_count)
    last = directory.last_step()
    begin = first_step if first_step is not None else (0 if last is None else last + 1)
    previous = directory.run_file(attempts[-1]) or {}
    return Attempt(attempts[-1] + 1, str(previous.get("run_id") or uuid.uuid4().hex), begin, rank, rank_count)


def ranks() -> tuple[int, int]:
    """This process's rank and the number of ranks."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
