"""One row per key out of the rows of all attempts and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import polars as pl

from recorder import schema

from .shards import Shard, polars_schema, scan


def rows(
    table: schema.Table, shards: Sequence[Shard], first_steps: Mapping[int, int], most: int | None = None
) -> pl.LazyFrame:
    """The valid rows of a table in the order of writing. `first_steps`: from where an attempt voids earlier ones.

    `most`: of each shard no more than so many rows, the first.

    Rows of several ranks are combined as the columns declare. Where all declare that ranks share the value, as in what
    was logged, only the lowest rank's are read.
    """
    ranks = sorted({shard.rank for shard in shards})
    if len(ranks) > 1 and any(_rule(table, name).rule not in ("key", "first") for name in table.columns):
        return combine_ranks(table, _valid_rows(table, shards, first_steps, most), len(ranks))
    kept = [shard for shard in shards if shard.rank == ranks[0]]
    return _valid_rows(table, kept, first_steps, most).drop("rank")


def _valid_rows(
    table: schema.Table, shards: Sequence[Shard], first_steps: Mapping[int, int], most: int | None
) -> pl.LazyFrame:
    """The rows that no later attempt voids, with a column `rank`."""
    writers = sorted({(shard.attempt, shard.rank) for shard in shards})
    frames = []
    for attempt, rank in writers:
        frame = scan(table, [shard for shard in shards if (shard.attempt, shard.rank) == (attempt, rank)], most)
        end = min((first for later, first in first_steps.items() if later > attempt), default=None)
        if end is not None:
            frame = frame.filter(pl.col("step").is_null() | (pl.col("step") < end))
        frames.append(frame.with_columns(rank=pl.lit(rank, pl.Int64)))
    return pl.concat(frames) if frames else scan(table, []).with_columns(rank=pl.lit(0, pl.Int64))


def combine_ranks(table: schema.Table, frame: pl.LazyFrame, ranks: int) -> pl.LazyFrame:
    """A row per key out of a row per key and rank, ordered by step; each column by its rule in the schema."""
    keys, values = list(table.keys), [name for name in table.columns if name not in table.keys]
    lists = [name for name in values if _is_list(table, name) and _rule(table, name).rule == "sum"]
    each = frame.sort("step", "rank", maintain_order=True).unique([*keys, "rank"], keep="last", maintain_order=True)
    combined = each.group_by(keys, maintain_order=True).agg(_combined(table, name).alias(name) for name in values)
    return combined.with_columns(_sum_of_lists(name, ranks) for name in lists).cast(pl.Schema(polars_schema(table)))


def _rule(table: schema.Table, name: str) -> schema.Ranks:
    return table[name].ranks or schema.FIRST


def _is_list(table: schema.Table, name: str) -> bool:
    return table[name].dtype.startswith("list")


def _combined(table: schema.Table, name: str) -> pl.Expr:
    """The aggregation of a column over the ranks; of lists to be summed, the list of them."""
    column, how = pl.col(name), _rule(table, name)
    numeric = table[name].dtype.startswith("float")
    match how.rule:
        case "sum" if _is_list(table, name):
            length = column.list.len()  # of different lengths there is no sum
            return column.filter(column.is_not_null() & (length.min() == length.max()))
        case "sum":  # the sum of nothing is 0, but not measured on any rank is null
            return pl.when(column.is_not_null().any()).then(column.sum())
        case "max":
            return column.nan_max() if numeric else column.max()
        case "min":
            return column.nan_min() if numeric else column.min()
        case "mean":
            return _pooled_mean(name, how.weight)
        case "variance" if how.mean and how.weight:
            return _pooled_variance(name, how.mean, how.weight)
        case "deviation" if how.mean:
            return _pooled_deviation(name, how.mean, how.weight)
        case _:
            return column.drop_nulls().first()


def _sum_of_lists(name: str, ranks: int) -> pl.Expr:
    """Sums, element by element, of the lists in a list of at most `ranks`; null if it holds none."""
    parts = [pl.col(name).list.get(rank, null_on_oob=True) for rank in range(ranks)]
    return reduce(lambda total, part: pl.coalesce(total + part, total), parts).alias(name)


def _weight(of: str, count: str | None) -> pl.Expr:
    """Samples behind each value, null where there is no value; ranks that do not tell their count weigh the same."""
    weight = pl.lit(1.0) if count is None else pl.col(count).cast(pl.Float64).fill_null(1.0)
    return pl.when(pl.col(of).is_not_null()).then(weight)


def _pooled_mean(mean: str, count: str | None) -> pl.Expr:
    """Mean over the samples of all ranks."""
    weight = _weight(mean, count)
    return pl.when(weight.sum() > 0).then((weight * pl.col(mean)).sum() / weight.sum())


def _pooled_deviation(deviation: str, mean: str, count: str | None) -> pl.Expr:
    """Standard deviation (ddof 0) over all ranks: within the ranks and between their means."""
    weight = _weight(deviation, count)
    centre = (weight * pl.col(mean)).sum() / weight.sum()
    square = weight * (pl.col(deviation) ** 2 + (pl.col(mean) - centre) ** 2)
    return pl.when(weight.sum() > 0).then((square.sum() / weight.sum()).sqrt())


def _pooled_variance(variance: str, mean: str, count: str) -> pl.Expr:
    """Variance (ddof 1) over the samples of all ranks: within the ranks plus between their means.

    A rank with one sample has no variance of its own, but its mean counts.
    """
    single = pl.col(count) <= 1
    known = pl.col(mean).is_not_null() & pl.col(count).is_not_null() & (pl.col(variance).is_not_null() | single)
    samples = pl.when(known).then(pl.col(count).cast(pl.Float64))
    centre = (samples * pl.col(mean)).sum() / samples.sum()
    within = pl.when(single).then(0.0).otherwise((samples - 1) * pl.col(variance))
    between = samples * (pl.col(mean) - centre) ** 2
    total = pl.when(known).then(within + between).sum()
    return pl.when(samples.sum() > 1).then(total / (samples.sum() - 1))


def one_each(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of `steps` with one for each step, the last written; free where the shards already are like this."""
    frame = frame.drop_nulls("step")  # no recorder writes such a row
    if frame.select((pl.col("step").diff() <= 0).any()).collect().item():
        return frame.unique(subset="step", keep="last", maintain_order=True)
    return frame


@dataclass(frozen=True, slots=True)
class Moves:
    """What puts rows in the order of their steps: the rows `sources` take the place of the rows `places`."""

    places: pl.Series
    sources: pl.Series

    def of(self, column: pl.Series) -> pl.Series:
        """The column with its rows in order."""
        if column.dtype.is_nested():
            return column.gather(self.of(pl.int_range(column.len(), dtype=pl.UInt32, eager=True)))
        return column.rechunk().scatter(self.places, column.gather(self.sources))


def disorder(frame: pl.LazyFrame) -> Moves | None:
    """What puts the rows in the order of their steps, those of a step as they were written; None if they are in it.

    A writer goes forward, but goes back for the rows it held when an incident makes them worth keeping: most rows are
    in their place, since none before has a later step and none behind has an earlier one.
    """
    steps, step = frame.select("step").collect().rechunk(), pl.col("step")
    if not steps.select((step.diff() < 0).any()).item():
        return None
    before, behind = step.cum_max().forward_fill().shift(), step.cum_min(reverse=True).backward_fill()
    settled = (before <= behind).fill_null(value=True)
    astray = settled.not_() | settled.shift(-1, fill_value=True).not_()
    rows = steps.with_row_index("row").filter(astray)
    return Moves(rows["row"], rows.sort("step", maintain_order=True)["row"])


def first_steps(known: Mapping[int, int], shards: Sequence[Shard]) -> dict[int, int]:
    """The first step of each attempt: as its run file says, or else its first row, since run files get lost too."""
    found = dict(known)
    for attempt in {shard.attempt for shard in shards} - known.keys():
        own = [shard for shard in shards if shard.attempt == attempt]
        first = scan(schema.STEPS, own).select(pl.col("step").min()).collect().item()
        if first is not None:
            found[attempt] = first
    return found
