"""A recorded run: opened once, read lazily, never changed."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import polars as pl

from recorder import schema

from . import derived
from .columns import Held, amount, disorder_of, holds, packed, read, unpacked
from .directory import GIVE, RunFiles, read_directory
from .errors import RunError
from .manifest import EndFile, GroupInfo, InstrumentInfo, Manifest, TensorInfo
from .remote import fetch, is_uri
from .resolve import first_steps, one_each, rows
from .shards import ShardSet, find_shards, spread, unreadable

__all__ = ["Event", "Run", "RunError", "Status", "open_run"]

Status = Literal["completed", "failed", "unfinished"]


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the table of events, its detail parsed; a detail that is no JSON object counts as empty."""

    step: int | None
    time: float | None
    kind: str
    message: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Run:
    """What an analyzer can know about a run. Tables are resolved over attempts and ranks and sorted by step.

    `status` is "failed" with the exception in `failure`, or "unfinished": killed, or still running. `problems` has a
    sentence for each thing that could not be read. A run may have recorded no step at all (`step_count` 0). `ends`: how
    the ranks of all attempts ended. `opened`: when the run was read, against which its age counts.
    """

    path: str
    name: str
    manifest: Manifest = field(repr=False)
    attempts: tuple[Manifest, ...] = field(repr=False)
    status: Status
    failure: str | None
    problems: tuple[str, ...]
    _shards: ShardSet = field(repr=False)
    _first_steps: Mapping[int, int] = field(repr=False)
    _copy: object = field(repr=False)
    ends: tuple[EndFile, ...] = field(default=(), repr=False)
    opened: datetime = field(default_factory=lambda: datetime.now(UTC), repr=False)
    _tables: dict[str, pl.LazyFrame] = field(default_factory=dict, repr=False)
    _series: dict[tuple[str, str], Held] = field(default_factory=dict, repr=False)
    _counts: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)

    def afresh(self) -> Run:
        """The same run with nothing held in memory, for when it is needed again later."""
        return replace(self, _tables={}, _series={}, _counts={})

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """The parameter tensors in forward order."""
        return self.manifest.tensors

    @property
    def groups(self) -> tuple[GroupInfo, ...]:
        """The parameter groups of all optimizers, in the order of the column `lr`."""
        return self.manifest.groups

    @property
    def instruments(self) -> tuple[InstrumentInfo, ...]:
        """The instruments that recorded."""
        return self.manifest.instruments

    @cached_property
    def last_sign(self) -> datetime | None:
        """When the newest attempt last recorded anything, by the clock of the training; None if that is not told."""
        started = _moment(self.manifest.started)
        times = self.frame("steps", "time", "duration").filter(pl.col("step") >= self.manifest.first_step)
        ended = times.select(pl.col("time") + pl.col("duration").fill_null(0.0)).to_series()
        seconds = [float(value) for value in ended.filter(ended.is_finite()).tail(1)]
        seconds += [event.time for event in self.events[-1:] if event.time is not None and math.isfinite(event.time)]
        latest = max((value for value in seconds if 0 <= value < _LONGEST), default=0.0)
        return None if started is None else started + timedelta(seconds=latest)

    @property
    def step_count(self) -> int:
        """Number of recorded steps."""
        return self._steps.len()

    @property
    def first_step(self) -> int | None:
        """The first recorded step."""
        return None if self._steps.is_empty() else int(self._steps[0])

    @property
    def last_step(self) -> int | None:
        """The last recorded step."""
        return None if self._steps.is_empty() else int(self._steps[-1])

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What happened, by step."""
        frame = self.frame("events", "time", "kind", "message", "detail")
        return tuple(_event(row) for row in frame.iter_rows(named=True))

    def events_of(self, kind: str) -> tuple[Event, ...]:
        """The events of one kind of `schema.EVENT_KINDS`."""
        return tuple(event for event in self.events if event.kind == kind)

    @cached_property
    def null_reasons(self) -> Mapping[str, str]:
        """Why a column (`table.column`) was not measured, where the recorder said so."""
        reasons = {}
        for event in self.events_of("not-measured"):
            columns = event.detail.get("columns")
            for name in columns if isinstance(columns, list) else ():
                reasons[str(name)] = str(event.detail.get("reason") or event.message)
        return MappingProxyType(reasons)

    def table(self, name: str) -> pl.LazyFrame:
        """A table of `schema.TABLES` with all its columns and the derived ones; those never recorded are null."""
        frame = self.written(name)
        in_order = disorder_of(self, name) is None
        return derived.with_derived(name, frame if in_order else frame.sort("step", maintain_order=True))

    def written(self, name: str) -> pl.LazyFrame:
        """The recorded columns of a table, its rows in the order of writing."""
        if name not in self._tables:
            frame = rows(schema.TABLES[name], self._shards.of(name), self._first_steps)
            self._tables[name] = one_each(frame) if name == schema.STEPS.name else frame
        return self._tables[name]

    def excerpt(self, name: str, shards: int, most: int) -> tuple[pl.LazyFrame, bool]:
        """The recorded columns of a table, and whether these are all its rows.

        Of a run of more than so many shards they are the first `most` rows of some, spread evenly; of several ranks
        the first.
        """
        every = self._shards.of(name)
        of_one_rank = [shard for shard in every if shard.rank == every[0].rank]
        if len(of_one_rank) <= shards:
            return self.written(name), True
        return rows(schema.TABLES[name], spread(of_one_rank, shards), self._first_steps, most), False

    def frame(self, table: str, *columns: str) -> pl.DataFrame:
        """The step, the other keys of the table and these columns, collected; each column is read only once.

        Raises KeyError for a column that the table does not have.
        """
        keys = schema.TABLES[table].keys or ("step",)
        return pl.DataFrame([unpacked(held) for held in self._held(table, list(dict.fromkeys((*keys, *columns))))])

    def _held(self, table: str, names: Sequence[str]) -> list[Held]:
        """Columns as they are in memory, or are from now on."""
        missing = [name for name in names if (table, name) not in self._series]
        for name in missing:
            derived.column(table, name)
        found = self._read(table, missing) if missing else {}
        self._series.update({(table, name): held for name, held in found.items()})
        return [self._series[table, name] for name in names]

    def _read(self, table: str, names: Sequence[str]) -> dict[str, Held]:
        """Columns that are not in memory: recorded ones from the shards, the others from what they follow from."""
        follow = [name for name in names if name in derived.DERIVED.get(table, {})]
        found = dict(read(self, table, [name for name in names if name not in follow]))
        if follow:
            roots = list(dict.fromkeys(root for name in follow for root in derived.roots(table, name)))
            follow = [name for name in derived.that_follow(table, roots) if (table, name) not in self._series]
            frame = derived.with_derived(table, self.frame(table, *roots).lazy(), follow).select(follow).collect()
            found |= {series.name: packed(series) for series in frame}
        return found

    def has(self, table: str, column: str) -> bool:
        """Whether the column holds a value somewhere; NaN is a value, null is none."""
        derived.column(table, column)
        return self.count(table, column) > 0 if self._at_hand(table, column) else holds(self, table, column)

    def count(self, table: str, column: str) -> int:
        """How many values, NaN included, the column holds. Raises KeyError if the table has no such column."""
        derived.column(table, column)
        if self._at_hand(table, column):
            return amount(*self._held(table, [column]))
        key = (table, column)
        if key not in self._counts:
            self._counts[key] = int(self.written(table).select(pl.col(column).count()).collect().item())
        return self._counts[key]

    def _at_hand(self, table: str, column: str) -> bool:
        """False for recorded columns that are not in memory, and may be large without anybody asking for their values.

        Those of `steps` are read together, and derived ones cost less than what they follow from.
        """
        steps, recorded = table == schema.STEPS.name, column in schema.TABLES[table].columns
        return steps or not recorded or (table, column) in self._series

    def row_count(self, table: str) -> int:
        """Number of rows of a table."""
        return self.count(table, "step")

    def shards_of(self, table: str) -> int:
        """Number of shards of a table that could be read."""
        return len(self._shards.of(table))

    @property
    def _steps(self) -> pl.Series:
        return self.frame(schema.STEPS.name)["step"]


def open_run(path: str | Path) -> Run:
    """Opens the run in a directory that a recorder wrote, or at a URI that fsspec understands.

    Raises RunError, in one sentence that names the file and the remedy, if there is no readable run.
    """
    if not str(path).strip() or "\0" in str(path):
        raise RunError(f"{str(path)!r} is no path: {GIVE}.")
    root, copy = fetch(path) if isinstance(path, str) and is_uri(path) else (Path(path), None)
    try:
        files = read_directory(root)
        root = root.absolute()  # polars would take a leading "~" for the home directory
        shards = find_shards(root, {item.attempt: item.run_id for item in files.attempts})
    except OSError as error:
        raise RunError(
            f"{error.filename or root} cannot be read ({error.strerror or error}): check its permissions."
        ) from None
    shards = _without_damaged(root, shards)
    status, failure = _status(files, shards)
    return Run(
        path=str(path),
        name=root.resolve().name if copy is None else str(path).rstrip("/").rpartition("/")[2],
        manifest=files.attempts[-1],
        attempts=files.attempts,
        status=status,
        failure=failure,
        problems=(*files.problems, *shards.problems, *_missing_ranks(files, shards)),
        _shards=shards,
        _copy=copy,
        ends=files.ends,
        _first_steps=first_steps({item.attempt: item.first_step for item in files.attempts}, shards.of("steps")),
    )


def _without_damaged(root: Path, shards: ShardSet) -> ShardSet:
    """The same shards without those whose bytes are damaged between a whole header and footer.

    One such shard would fail every query. Reading each in full is dear, so it happens only if the steps fail to read.
    """
    try:
        rows(schema.STEPS, shards.of("steps"), {}).select("step").collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        damaged = [shard for shard in shards.shards if unreadable(shard, schema.TABLES[shard.table])]
        kept = tuple(shard for shard in shards.shards if shard not in damaged)
        sentences = [
            f"{item.path.relative_to(root).as_posix()} is damaged: skipped; copy it again." for item in damaged
        ]
        return ShardSet(kept, (*shards.problems, *sentences))
    return shards


def _status(files: RunFiles, shards: ShardSet) -> tuple[Status, str | None]:
    """How the newest attempt ended, over its ranks, and the exception if one failed."""
    newest = files.attempts[-1].attempt
    ends = [end for end in files.ends if end.attempt == newest]
    for end in ends:
        if end.status == "failed":
            where = f" (rank {end.rank})" if end.rank else ""
            return "failed", (end.exception or "the training raised an exception that was not recorded") + where
    ranks = {shard.rank for shard in shards.shards if shard.attempt == newest} or {0}
    return ("completed" if ranks <= {end.rank for end in ends} else "unfinished"), None


def _missing_ranks(files: RunFiles, shards: ShardSet) -> Iterator[str]:
    """A sentence for each attempt of which fewer ranks left shards than took part."""
    seen: dict[int, set[int]] = defaultdict(set)
    for shard in shards.of("steps"):
        seen[shard.attempt].add(shard.rank)
    for item in files.attempts:
        ranks = seen[item.attempt]
        missing = item.rank_count - len(ranks)
        if ranks and missing > 0:
            yield (
                f"steps/ has shards of {len(ranks)} of {item.rank_count} ranks in attempt {item.attempt}: "
                f"{_some_missing(item.rank_count, ranks)} missing; copy the shards of all ranks into one directory."
            )


def _some_missing(rank_count: int, ranks: set[int]) -> str:
    missing = [rank for rank in range(min(rank_count, len(ranks) + 5)) if rank not in ranks]
    names = ", ".join(str(rank) for rank in missing[:4])
    return (
        f"rank {names} is" if rank_count - len(ranks) == 1 else f"ranks {names}{', …' if len(missing) > 4 else ''} are"
    )


_LONGEST = 1e9
"""Seconds; a clock that says more is wrong."""


def _moment(text: str | None) -> datetime | None:
    """An ISO time as a moment; UTC where it names no zone, None where it is none."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _event(row: dict[str, Any]) -> Event:
    try:
        detail = json.loads(row["detail"] or "{}")
    except (ValueError, RecursionError):
        detail = {}
    return Event(
        step=row["step"],
        time=row["time"],
        kind=row["kind"] or "",
        message=row["message"] or "",
        detail=detail if isinstance(detail, dict) else {},
    )
