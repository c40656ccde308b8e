"""DAT009: data that comes in an order, so that a batch holds what the one before held."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..classes import Order, class_table, order, target_order
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import blocks, scalar
from ..progress import adversarial, losses, measured
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class Unshuffled(Detector):
    """The data are not shuffled: a batch holds few of the classes, or a narrow range of targets, as its neighbours do.

    ## What it does
    Compares the class counts of the batches with those of random draws: Pearson's statistic over its degrees of
    freedom, averaged over the probes, is 1 for shuffled data, and the size of a batch for batches of a single class. It
    fires above 3 and above a tenth of the size of a batch, if successive batches are alike too (correlation above 0.5)
    or nearly all batches hold one class. So samplers that choose classes at random for each batch are no finding. For a
    regression: the range of the targets within a batch, beside that of all, for batches of at least 8, and the
    correlation of successive batches. It is an error if the loss shows it: it swings by more than its noise.

    ## Why it matters
    The gradient points to the class at hand; the model forgets the others until they come back. The training loss looks
    low, as the model follows the order of the data; on validation data it is not. Batch norms see one class.

    ## What to try
    `DataLoader(..., shuffle=True)`. For data that are streamed: a buffer to shuffle in, or shuffled files.

    ## Options
    - `swing` (1.5, standard deviation of the loss over its noise): calibrated.

    ## References
    - Bottou 2012, Stochastic gradient descent tricks: shuffle the examples.
    """

    code: ClassVar[str] = "DAT009"
    name: ClassVar[str] = "unshuffled"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = (
        "LOS001", "LOS002", "LOS003", "LOS004", "LOS005", "STP001", "CUR001", "GEN001", "ACT003", "DAT007", "DAT010",
    )  # fmt: skip

    swing: float = 1.5
    """Standard deviation of the loss over its noise."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: their batches are made by design")
        if run.manifest.mode == "overfit-batch":
            raise NotApplicable("the run repeats one batch on purpose")
        found = order(class_table(run)) or target_order(run)
        if found is None:
            raise NotApplicable(
                "the targets of too few batches were seen, or they are no single number or class a sample"
            )
        if found.sorted:
            yield self._finding(run, found)

    def _finding(self, run: Run, found: Order) -> Finding:
        swings = swinging(run)
        progress = measured(run)
        harmed = swings > self.swing or (progress is not None and progress.learned < 0.3)
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if harmed else "warning",
            message=f"The batches are not random: {_words(found)}, and successive batches are alike (correlation"
            f" {number(found.likeness, 2)}).",
            confidence=0.95 if harmed else 0.85,
            first_step=run.first_step,
            last_step=run.last_step,
            value=found.dispersion,
            threshold=max(3.0, 0.1 * found.batch),
            evidence=_evidence(found, swings, self.swing),
            causes=("shuffle=False, or no shuffle at all, on data that are sorted",),
            advice=(
                "DataLoader(..., shuffle=True), or permute the indices in every epoch.",
                "For data that are streamed: a buffer to shuffle in, or shuffled files.",
            ),
            chart=ChartRef("steps", "loss"),
        )


def _words(found: Order) -> str:
    if found.of_range:
        share = percent(1 / found.dispersion)
        return f"the targets of a batch span {share} of what those of {count(found.batches)} batches do"
    usual = percent(found.random_purity)
    return (
        f"on average {percent(found.purity)} of a batch belong to one class, where the most frequent class has {usual}"
        f" of all {count(found.batches)} batches"
    )


def swinging(run: Run) -> float:
    """Standard deviation of the losses of the second half over their noise, that of the differences of neighbours.

    1 for independent batches, whatever their noise. A straight line through each half of them is taken away before.
    """
    series = losses(run)
    late = series.tail(series.height // 2)
    if late.height < 40:
        return 1.0
    (noise,) = blocks(late, "loss", late.height)["noise"]
    left = pl.col("loss").var() - pl.cov("step", "loss") ** 2 / pl.col("step").var()
    half = pl.int_range(pl.len()) * 2 // pl.len()
    variance = scalar(late.group_by(half.alias("half")).agg(left.alias("left"))["left"].mean())
    return math.sqrt(variance) / noise if noise and variance > 0 else 1.0


def _evidence(found: Order, swings: float, limit: float) -> Evidence:
    supporting: list[str] = []
    if not found.of_range:
        supporting.append(
            f"The class counts scatter {number(found.dispersion, 3)} times as much as those of random batches would."
        )
    told = f"The loss of the second half swings by {number(swings, 2)} times its noise from batch to batch."
    return Evidence((*supporting, *(told,) * (swings > limit)), (told,) * (swings <= limit))
