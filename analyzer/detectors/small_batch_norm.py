"""ACT003: batch norms that average over so few values that their statistics are noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..progress import measured
from ..run import Run
from ..wording import listed, number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class SmallBatchNorm(Detector):
    """Batch norms normalise over very few samples.

    ## What it does
    Takes, for each batch norm in training mode, the values that it averages over for each channel, and the samples of
    a forward pass. It fires if the median over the probes is below 8 values, or below 4 samples: the pixels of one
    image are no independent values. It is a warning if the run has not learned nearly all there was to learn.

    ## Why it matters
    Means and variances of a few samples are noise, which every prediction inherits; and the running statistics that
    evaluation uses are not those that the training saw.

    ## What to try
    Larger batches: accumulating gradients does not help here. Group norm or layer norm, which do not depend on the
    batch. Batch norm in evaluation mode where the statistics are known already.

    ## Options
    - `values` (8, values a channel): a guess; Wu and He 2018 find harm below 16.
    - `samples` (4, samples a forward pass): a guess, likewise.
    - `learned` (0.9, share of what there was to learn): more makes it a note. Calibrated.

    ## References
    - Ioffe and Szegedy 2015. Wu and He 2018, Group normalization, figure 1. Ioffe 2017, Batch renormalization.
    """

    code: ClassVar[str] = "ACT003"
    name: ClassVar[str] = "small-batch-norm"
    severity: ClassVar[Severity] = "warning"
    requires: ClassVar = {"modules": ("normalized_over",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "CUR001", "STP001", "GRD002", "UPD001")

    values: int = 8
    """Values a channel."""
    samples: int = 4
    """Samples a forward pass."""
    learned: float = 0.9
    """Share of what there was to learn."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        rows = run.frame("modules", "normalized_over").drop_nulls("normalized_over")
        if rows["step"].n_unique() < 3:
            raise NotApplicable("fewer than three probes tell over how many values batch norms average")
        typical = rows.group_by("module", maintain_order=True).agg(pl.col("normalized_over").median().alias("values"))
        batch = _samples(run)
        found = typical.filter((pl.col("values") < self.values) | pl.lit(batch < self.samples))
        if not found.is_empty():
            yield self._finding(run, found, batch)

    def _finding(self, run: Run, found: pl.DataFrame, batch: float) -> Finding:
        progress = measured(run)
        least = scalar(found["values"].min())
        short = progress is not None and progress.learned < self.learned
        by_samples = batch < self.samples
        names = tuple(found["module"])
        outcome = "" if progress is None else f"; {percent(max(0.0, progress.learned))} of the loss was learned away"
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if short else "note",
            message=f"{plural(len(names), 'batch norm')} ({listed(names)}) average over {number(least, 3)} values a"
            f" channel{f' of {number(batch, 3)} samples' if by_samples else ''}{outcome if short else ''}.",
            confidence=0.75 if short else 0.5,
            first_step=run.first_step,
            last_step=run.last_step,
            value=batch if by_samples else least,
            threshold=float(self.samples if by_samples else self.values),
            unit="samples" if by_samples else "values",
            evidence=Evidence(
                (f"The median over the probes is {number(least, 3)} values a channel.",)
                + ((f"A forward pass has {number(batch, 3)} samples (median).",) if math.isfinite(batch) else ()),
                () if short else ("The run learned nearly all there was to learn, or that is not known.",),
            ),
            causes=(
                "Batches too small for batch norm",
                "Gradients accumulated over many tiny batches",
                "A large batch that was split over many devices",
            ),
            advice=(
                "Use larger batches; accumulating gradients does not help batch norm.",
                "Replace batch norm by group norm or layer norm, or synchronise it over devices.",
            ),
            chart=ChartRef("modules", "normalized_over", names),
        )


def _samples(run: Run) -> float:
    """Samples of a forward pass (median), NaN if unknown."""
    frame = run.frame("steps", "batch_size", "micro_batches")
    each = frame.select(pl.col("batch_size") / pl.col("micro_batches").fill_null(1)).to_series()
    return scalar(each.median())
