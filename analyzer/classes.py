"""What the batches hold of each class, and how often it is predicted: imbalance, and the order of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from .memo import per_run
from .noise import scalar
from .run import Run

LARGEST = 2_000_000
"""Counts that are looked at; of longer tables the first probes, which are consecutive steps, and then some."""
DENSE = 150
"""Rows of such a table that are kept at its start."""
TURNS = 3
"""Times that the targets of the batches must cross their mean: less is a drift, not an order that repeats."""


@per_run
def class_table(run: Run, column: str = "class_counts", *, positive: bool = True) -> pl.DataFrame:
    """Counts of each class by probe: `step`, `size` (their sum) and a column for each class; empty if not recorded.

    Only of losses with one target a sample: the tokens of a sequence are no independent draws. `positive`: without the
    probes at which nothing was counted.
    """
    frame = run.frame("steps", column, "batch_size").drop_nulls(column)
    width = int(scalar(frame[column].list.len().max())) if frame.height else 0
    if width < 2:
        return pl.DataFrame(schema={"step": pl.Int64, "size": pl.Float64})
    most = max(2 * DENSE, LARGEST // width)
    if frame.height > most:
        rest = frame.slice(DENSE)
        frame = pl.concat([frame.head(DENSE), rest.gather_every(-(-rest.height // (most - DENSE)))])
    names = [str(k) for k in range(width)]
    size = pl.sum_horizontal(names)
    single = pl.col("batch_size").is_null() | (size <= 1.001 * pl.col("batch_size"))
    table = (
        frame.with_columns(pl.col(column).list.to_struct(fields=names))
        .unnest(column)
        .with_columns(pl.col(names).cast(pl.Float64).fill_null(0.0))
    )
    return table.filter(single & ((size > 0) | (not positive))).select("step", size.alias("size"), *names)


def classes_of(table: pl.DataFrame) -> list[str]:
    """The columns of a `class_table` that hold classes."""
    return [name for name in table.columns if name.isdigit()]


def shares(table: pl.DataFrame) -> list[float]:
    """The share of each class among all targets of a `class_table`."""
    sums = table.select(classes_of(table)).sum().row(0)
    total = sum(sums)
    return [value / total for value in sums] if total else []


@dataclass(frozen=True, slots=True)
class Order:
    """How the classes are spread over the batches.

    `dispersion`: of the class counts relative to that of random batches (Pearson's statistic over its degrees of
    freedom, the mean over the batches): 1 for shuffled data, up to the size of a batch for batches of a single class.
    `batch`: the mean size. `likeness`: correlation of the classes of successive batches. `purity`: mean share of the
    most frequent class of a batch. `random_purity`: the share of the most frequent class of all.
    """

    dispersion: float
    batch: float
    likeness: float
    purity: float
    random_purity: float
    batches: int
    of_range: bool = False
    """Whether it is about the range of targets that are numbers: `dispersion` is that of all over that of a batch."""

    @property
    def sorted(self) -> bool:
        """Whether the batches are far more alike within, and like their neighbours, than shuffled ones would be."""
        if self.of_range:
            return self.dispersion > 4 and self.likeness > 0.5
        concentrated = self.dispersion > max(3.0, 0.1 * self.batch)
        return concentrated and (self.likeness > 0.5 or self.dispersion > 0.5 * self.batch >= 3)


def order(table: pl.DataFrame) -> Order | None:
    """How the classes of a `class_table` are spread over the batches; None for fewer than 20 batches or one class."""
    every = shares(table)
    names = [name for name, share in zip(classes_of(table), every, strict=False) if share > 0]
    if table.height < 20 or len(names) < 2:
        return None
    means = [share for share in every if share > 0]
    size = pl.col("size")
    squares = [(pl.col(n) - size * p) ** 2 / (size * p) for n, p in zip(names, means, strict=True)]
    left = [pl.col(n) / size - p for n, p in zip(names, means, strict=True)]
    following = pl.col("step").diff() == 1
    products = pl.sum_horizontal([x * x.shift() for x in left]).filter(following).mean()
    found = table.select(
        dispersion=(pl.sum_horizontal(squares) / (len(names) - 1)).mean(),
        likeness=products / pl.sum_horizontal([x * x for x in left]).mean(),
        purity=(pl.max_horizontal(names) / size).mean(),
        batch=size.mean(),
    ).row(0, named=True)
    return Order(
        dispersion=scalar(found["dispersion"]),
        batch=scalar(found["batch"]),
        likeness=scalar(found["likeness"]),
        purity=scalar(found["purity"]),
        random_purity=max(means),
        batches=table.height,
    )


def target_order(run: Run) -> Order | None:
    """The same for targets that are numbers, one a sample: by their range within a batch beside that of all batches.

    Of random batches of 8 the range is a third of that of ten thousand normal values. None for smaller batches, for
    fewer than 20, for targets of more than one number a sample, which may belong together, and for those that drift
    once through their range, as the returns of a policy do that gets better.
    """
    call = next(iter(run.events_of("loss-input")), None)
    shape = call.detail.get("target_shape") if call else None
    names = ("target_min", "target_max")
    frame = run.frame("steps", *names, "batch_size").drop_nulls(list(names))
    frame = frame.filter(pl.all_horizontal(pl.col(names).is_finite()))
    single = isinstance(shape, list) and len(shape) > 0 and shape[0] == math.prod(shape)
    if not single or frame.height < 20 or scalar(frame["batch_size"].min()) < 8:
        return None
    every = scalar(frame["target_max"].max()) - scalar(frame["target_min"].min())
    middle = (pl.col("target_min") + pl.col("target_max")) / 2
    ranges = frame.select("step", width=pl.col("target_max") - pl.col("target_min"), left=middle - middle.mean())
    turns = scalar(ranges.select(((pl.col("left") > 0) != (pl.col("left") > 0).shift()).sum()).item())
    products = (pl.col("left") * pl.col("left").shift()).filter(pl.col("step").diff() == 1).mean()
    width = scalar(ranges["width"].median())
    if every <= 0 or turns < TURNS:
        return None
    return Order(
        dispersion=every / width if width > 0 else math.inf,
        batch=scalar(frame["batch_size"].mean()),
        likeness=scalar(ranges.select(products / (pl.col("left") ** 2).mean()).item()),
        purity=1.0,
        random_purity=1.0,
        batches=frame.height,
        of_range=True,
    )
