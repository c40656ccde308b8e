"""What was logged of data that the model does not train on: which metrics there are, and which way they should go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from .run import Run

_HELD_OUT = re.compile(r"(^|[^a-z])(val|valid|validation|dev|test|eval|evaluation|held-?_?out)([^a-z]|$|\d)")
_FALLS = re.compile(
    r"loss|err|nll|perplexity|\bppl|mse|mae|rmse|\bl1\b|\bl2\b|\bce\b|bce|cross|entropy|cost|\bwer|\bcer|\bfid|brier|diverg"
)
_RISES = re.compile(
    r"acc|auc|auroc|\bf1|f-?score|precision|recall|\biou|dice|\br2|bleu|rouge|\bmap\b|score|psnr|ssim|reward|return|correct"
    r"|top-?\d|hit|likelihood|elbo|spearman|pearson|kappa|\bmcc"
)
_ACCURACY = re.compile(r"acc|top-?_?1")
_SEPARATORS = re.compile(r"[_./ ]+")


@dataclass(frozen=True, slots=True)
class Metric:
    """A logged metric. `falls`: whether less is better, by its name. `values`: `step` and `value`, finite."""

    split: str
    name: str
    falls: bool
    values: pl.DataFrame

    @property
    def is_loss(self) -> bool:
        """Whether it is called a loss, as that which is differentiated is."""
        return "loss" in self.name.lower()

    @property
    def costs(self) -> pl.DataFrame:
        """The values so that less is better."""
        return self.values if self.falls else self.values.with_columns(-pl.col("value"))

    def __str__(self) -> str:
        return f"{self.split} {self.name}"


def held_out(split: str) -> bool:
    """Whether a split is called like data that a model is not trained on."""
    return _HELD_OUT.search(split.lower()) is not None


def falls(name: str) -> bool | None:
    """Whether less of a metric is better; None if its name does not tell."""
    words = _SEPARATORS.sub(" ", name.lower())
    if _FALLS.search(words) and "log likelihood" not in words:
        return True
    return False if _RISES.search(words) else None


def metrics(run: Run) -> Iterator[Metric]:
    """The metrics of held-out data whose direction is known: losses first, validation before test, as logged."""
    found = [metric for metric in directed(run) if held_out(metric.split)]
    yield from sorted(found, key=lambda metric: (not metric.is_loss, not metric.falls, "test" in metric.split.lower()))


def directed(run: Run) -> Iterator[Metric]:
    """The metrics of all splits whose direction is known, as logged."""
    logged = run.frame("metrics", "value").filter(pl.col("value").is_finite() & pl.col("step").is_not_null())
    for (split, name), values in logged.partition_by("split", "name", maintain_order=True, as_dict=True).items():
        if (way := falls(str(name))) is not None:
            yield Metric(str(split), str(name), way, values.select("step", "value").sort("step"))


def logged(run: Run, kind: str) -> pl.DataFrame:
    """`step` and `value` of the first metric of its kind: "loss", or "accuracy" as a share of one; or empty."""
    for metric in metrics(run):
        if kind == "loss" and metric.is_loss:
            return metric.values
        if kind == "accuracy" and _ACCURACY.search(metric.name.lower()):
            percent = bool((metric.values["value"] > 1.5).any())
            return metric.values.with_columns(pl.col("value") / 100) if percent else metric.values
    return pl.DataFrame(schema={"step": pl.Int64, "value": pl.Float64})
