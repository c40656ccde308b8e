"""Which shards of a run can be read. What cannot be is set aside and reported, one sentence a kind, never fatal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import polars as pl

from recorder import schema

_DTYPES: Mapping[schema.DType, pl.DataType] = {
    "int64": pl.Int64(),
    "float64": pl.Float64(),
    "float32": pl.Float32(),
    "bool": pl.Boolean(),
    "string": pl.String(),
    "list<float64>": pl.List(pl.Float64),
    "list<int64>": pl.List(pl.Int64),
}

_CASTS = pl.ScanCastOptions(integer_cast="upcast", float_cast=["upcast", "downcast"], categorical_to_string="allow")
"""Arrow's dictionary strings read as Categorical; narrower numbers come from recorders that save space."""

AT_ONCE = 8
"""Shards that are opened at the same time: over a network most of it is waiting."""

BEING_WRITTEN = "is unfinished"
"""What a problem says of a file that its writer had not finished: no harm while a run goes on or was killed."""


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """A finished shard, as its name says: one writer is one attempt and rank."""

    table: str
    attempt: int
    rank: int
    sequence: int
    path: Path


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards that can be read, in the order of writing, and what is wrong with the rest."""

    shards: tuple[Shard, ...]
    problems: tuple[str, ...]

    def of(self, table: str) -> tuple[Shard, ...]:
        """The shards of one table."""
        return tuple(shard for shard in self.shards if shard.table == table)


def polars_schema(table: schema.Table) -> dict[str, pl.DataType]:
    """The table's columns with their polars types."""
    return {column.name: _DTYPES[column.dtype] for column in table.columns.values()}


def find_shards(root: Path, run_ids: Mapping[int, str]) -> ShardSet:
    """Lists and probes the shards of all tables under a run directory; `run_ids` are the run's ids by attempt."""
    good: list[Shard] = []
    problems: list[str] = []
    for table in schema.TABLES.values():
        found, strangers = _list_table(root, table.name)
        faults: dict[str, list[Shard]] = defaultdict(list)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            looked_at = pool.map(lambda shard, table=table: _fault(shard, table, run_ids), found)
        for shard, fault in zip(found, looked_at, strict=True):
            if fault is None:
                good.append(shard)
            else:
                faults[fault].append(shard)
        problems += [f"{_named(shards, root)} {fault}" for fault, shards in faults.items()]
        problems += list(_gaps(found))
        problems += strangers
    return ShardSet(tuple(good), tuple(problems))


def scan(table: schema.Table, shards: Iterable[Shard], most: int | None = None) -> pl.LazyFrame:
    """One lazy frame over shards of one table; columns that a shard lacks are null, those in excess are left out.

    `most`: of each shard no more than so many rows, the first.
    """
    if most is not None:
        return pl.concat([scan(table, [shard]).head(most) for shard in shards])
    columns = polars_schema(table)
    paths = [shard.path for shard in shards]
    if not paths:
        return pl.LazyFrame(schema=columns)
    # glob and hive partitioning off: a directory may well be called "lr=[0.1]".
    return pl.scan_parquet(
        paths,
        schema=columns,
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=_CASTS,
        glob=False,
        hive_partitioning=False,
    )


def spread(shards: Sequence[Shard], most: int) -> list[Shard]:
    """At most so many of the shards, with about as many rows between them: those are in proportion to the bytes."""
    sizes = [shard.path.stat().st_size for shard in shards]
    ends = list(accumulate(sizes))
    begun = [(end - size) * most // ends[-1] for end, size in zip(ends, sizes, strict=True)]
    return [shards[i] for i, share in enumerate(begun) if i == 0 or share > begun[i - 1]]


def unreadable(shard: Shard, table: schema.Table) -> bool:
    """Whether reading the whole shard fails, although its footer is fine: the bytes between are damaged."""
    try:
        scan(table, [shard]).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return True
    return False


def _list_table(root: Path, table: str) -> tuple[list[Shard], list[str]]:
    """The shards of a table's folder by their names, and a sentence on the files that are none."""
    folder = root / table
    if not folder.is_dir():
        return [], []
    found, unfinished, unknown = [], [], []
    for path in sorted(folder.iterdir()):
        match = schema.SHARD.fullmatch(path.name)
        if match and path.is_file():
            attempt, rank, sequence = (int(number) for number in match.groups())
            found.append(Shard(table, attempt, rank, sequence, path))
        elif path.name.endswith(schema.SHARD_SUFFIX + schema.UNFINISHED):
            unfinished.append(path)
        elif path.suffix == schema.SHARD_SUFFIX:
            unknown.append(path)
    return sorted(found), list(_strangers(root, unfinished, unknown))


def _strangers(root: Path, unfinished: list[Path], unknown: list[Path]) -> Iterator[str]:
    if unfinished:
        yield f"{_paths(unfinished, root)} {BEING_WRITTEN} (its process ended, or still writes it): not read."
    if unknown:
        yield f"{_paths(unknown, root)} is not named like a shard: not read."


def _fault(shard: Shard, table: schema.Table, run_ids: Mapping[int, str]) -> str | None:
    """Why a shard cannot be used, as the end of a sentence, or None."""
    try:
        with shard.path.open("rb") as file:  # by its path, brackets in it would be taken for a pattern
            metadata = pl.read_parquet_metadata(file)
        columns = pl.scan_parquet(shard.path, glob=False, hive_partitioning=False).collect_schema()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return "is torn (no readable footer): skipped; copy it again if the original is whole."
    version = metadata.get("glideslope.format", "")
    if version.isdecimal() and int(version) > schema.FORMAT:
        return f"has the newer format {version}: skipped; upgrade glideslope (pip install --upgrade glideslope)."
    known = {run_ids[shard.attempt]} if shard.attempt in run_ids else set(run_ids.values())
    if metadata.get("glideslope.run_id") not in known:
        return "belongs to another run: skipped; move it back to its own directory."
    misfits = [name for name, dtype in polars_schema(table).items() if not _fits(columns.get(name), dtype)]
    if misfits or "step" not in columns:
        return f"has a column of the wrong type ({(misfits or ['step'])[0]}): skipped; copy it again."
    return None


def _fits(found: pl.DataType | None, wanted: pl.DataType) -> bool:
    """Whether `scan` can turn the column found in a shard into the type that the schema wants."""
    if found is None or found == wanted:
        return True
    if wanted == pl.String:
        return isinstance(found, (pl.Categorical, pl.Enum))
    if wanted == pl.Int64:
        return found in (pl.Int8, pl.Int16, pl.Int32)
    return wanted in (pl.Float64, pl.Float32) and found in (pl.Float32, pl.Float64)


def _gaps(found: list[Shard]) -> Iterator[str]:
    """A sentence for each writer whose sequence numbers are not 0, 1, 2, ..."""
    writers: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for shard in found:
        writers[shard.table, shard.attempt, shard.rank].append(shard.sequence)
    for (table, attempt, rank), sequences in writers.items():
        seen = set(sequences)
        count = max(seen) + 1 - len(seen)
        if count:
            first = next(number for number in range(max(seen)) if number not in seen)
            name = schema.shard_name(table, attempt, rank, first)
            more = f" and {count - 1} more of its sequence are" if count > 1 else " is"
            yield f"{name}{more} missing: their rows are lost unless the run is copied again."


def _named(shards: list[Shard], root: Path) -> str:
    return _paths([shard.path for shard in shards], root)


def _paths(paths: list[Path], root: Path) -> str:
    """The first path within the run, and how many more there are."""
    first = paths[0].relative_to(root).as_posix()
    return first if len(paths) == 1 else f"{first} (and {len(paths) - 1} more like it)"
