"""One row per key out of the rows of all attempts and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from recorder import schema

from .shards import Shard, scan


def rows(table: schema.Table, shards: Sequence[Shard], first_steps: Mapping[int, int]) -> pl.LazyFrame:
    """The valid rows of a table in the order of writing. `first_steps`: from where an attempt voids earlier ones.

    Steps are combined over the ranks. Of the other tables the lowest rank counts: replicas hold the same tensors.
    """
    ranks = sorted({shard.rank for shard in shards})
    if table.name == schema.STEPS.name and len(ranks) > 1:
        return combine_ranks(_valid_rows(table, shards, first_steps))
    kept = [shard for shard in shards if shard.rank == ranks[0]]
    return _valid_rows(table, kept, first_steps).drop("rank")


def _valid_rows(table: schema.Table, shards: Sequence[Shard], first_steps: Mapping[int, int]) -> pl.LazyFrame:
    """The rows that no later attempt voids, with a column `rank`."""
    writers = sorted({(shard.attempt, shard.rank) for shard in shards})
    frames = []
    for attempt, rank in writers:
        frame = scan(table, [shard for shard in shards if (shard.attempt, shard.rank) == (attempt, rank)])
        end = min((first for later, first in first_steps.items() if later > attempt), default=None)
        if end is not None:
            frame = frame.filter(pl.col("step").is_null() | (pl.col("step") < end))
        frames.append(frame.with_columns(rank=pl.lit(rank, pl.Int64)))
    return pl.concat(frames) if frames else scan(table, []).with_columns(rank=pl.lit(0, pl.Int64))


def combine_ranks(steps: pl.LazyFrame) -> pl.LazyFrame:
    """A row per step out of a row per step and rank, ordered by step.

    Counts are summed, the loss is the mean over all samples, means and variances over samples are pooled, extremes are
    the extremes over all ranks. What the ranks share (gradients after the reduction, the update, rates) is the lowest
    rank's.
    """
    names = [name for name in schema.STEPS.columns if name != "step"]
    ordered = steps.sort("step", "rank", maintain_order=True)
    return ordered.group_by("step", maintain_order=True).agg(_combined(name) for name in names)


_SUMMED = ("batch_size", "loss_count", "slope_count", "individual_count", "input_nonfinite")
_LARGEST = (
    "duration",
    "skipped",
    "stale_grad_norm",
    "input_absmax",
    "input_spread",
    "prediction_max",
    "prediction_sum_max",
    "target_max",
)
_SMALLEST = ("training_share", "prediction_min", "prediction_sum_min", "target_min")
_MEANS = {
    "loss": "batch_size",
    "start_slope": "slope_count",
    "end_slope": "slope_count",
    "inner_mean": "individual_count",
    "grad_var": "individual_count",  # each rank's scatter is around the gradient that all ranks share
}
_VARIANCES = {
    "loss_var": ("loss", "loss_count"),
    "start_slope_var": ("start_slope", "slope_count"),
    "end_slope_var": ("end_slope", "slope_count"),
    "inner_var": ("inner_mean", "individual_count"),
}


def _combined(name: str) -> pl.Expr:
    column = pl.col(name)
    if name in _SUMMED:
        # The sum of nothing is 0, but not measured on any rank is null.
        return pl.when(column.is_not_null().any()).then(column.sum()).alias(name)
    if name in _LARGEST:
        return (column.max() if _is_bool(name) else column.nan_max()).alias(name)
    if name in _SMALLEST:
        return column.nan_min().alias(name)
    if name in _MEANS:
        return _pooled_mean(name, _MEANS[name]).alias(name)
    if name in _VARIANCES:
        return _pooled_variance(name, *_VARIANCES[name]).alias(name)
    return column.first()


def _is_bool(name: str) -> bool:
    return schema.STEPS[name].dtype == "bool"


def _pooled_mean(mean: str, count: str) -> pl.Expr:
    """Mean over the samples of all ranks; ranks that do not tell their count weigh the same."""
    weight = pl.when(pl.col(mean).is_not_null()).then(pl.col(count).cast(pl.Float64).fill_null(1.0))
    return pl.when(weight.sum() > 0).then((weight * pl.col(mean)).sum() / weight.sum())


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


def in_order(frame: pl.LazyFrame, table: schema.Table) -> pl.LazyFrame:
    """Rows sorted by step, of `steps` one each (the last written wins); free where the shards already are like this.

    A writer goes forward, but goes back for the rows it held when an incident makes them worth keeping.
    """
    if table.name == schema.STEPS.name:
        frame = frame.drop_nulls("step")  # no recorder writes such a row
    change = pl.col("step").diff()
    backwards, level = (
        frame.select((change < 0).any().alias("backwards"), (change == 0).any().alias("level")).collect().row(0)
    )
    if table.name == schema.STEPS.name and (backwards or level):
        frame = frame.unique(subset="step", keep="last", maintain_order=True)
    return frame.sort("step", maintain_order=True) if backwards else frame


def first_steps(known: Mapping[int, int], shards: Sequence[Shard]) -> dict[int, int]:
    """The first step of each attempt: as its run file says, or else its first row, since run files get lost too."""
    found = dict(known)
    for attempt in {shard.attempt for shard in shards} - known.keys():
        own = [shard for shard in shards if shard.attempt == attempt]
        first = scan(schema.STEPS, own).select(pl.col("step").min()).collect().item()
        if first is not None:
            found[attempt] = first
    return found
