"""LOS003: a loss that jumps up far out of its noise, and how long it takes to come back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..pace import clipping
from ..progress import adversarial, losses, measured
from ..run import Run
from ..wording import count, listed, number, plural
from .base import Detector


@dataclass(frozen=True)
class _Spike:
    """`level`: the loss before. `lasted`: steps until it was back there; None if the run ended before."""

    step: int
    level: float
    peak: float
    deviations: float
    lasted: int | None


@dataclass(frozen=True)
class LossSpike(Detector):
    """The loss jumps up far out of its noise, and comes back after a while.

    ## What it does
    Compares the logarithm of each loss with those of the 128 steps before. A spike is a loss six standard deviations
    above their mean, a fifth above the largest of them, and worth mentioning beside what there is to learn. Hits that
    are close together are one spike, and it is over when the median of nine losses is back. Losses that rise with the
    learning rate, and a step up that stays (harder data, or a divergence, which is LOS002), are none. A single batch
    out of line counts only if it is fivefold and a rarity.

    ## Why it matters
    A spike costs the steps it takes to come back, and may cost the run: the next one may not come back.

    ## What to try
    Look at the batch of that step and of the one before. Clip the gradient norm at its 90th percentile; warm up; with
    Adam, lower beta2 (0.95), which forgets small gradients sooner. Large runs go back to a checkpoint and skip the
    batches.

    ## Options
    - `window` (128 steps before, of which half must be there).
    - `deviations` (6 standard deviations of the logarithm): OLMo-core's, of the loss itself.
    - `rise` (1.2, times the largest loss of the window).
    - `worth` (0.05, share of the loss of a model that knows nothing, or of the first loss): smaller spikes do no harm.
    - `outlier` (5, times the level before): what a spike of one or two steps takes to be told.
    - `recovery` (50 steps): a spike that lasts longer is a warning.

    ## References
    - OLMo-core and llm-foundry on spikes; Chowdhery et al. 2022, PaLM, on restarts; Wortsman et al. 2023 on beta2.
    """

    code: ClassVar[str] = "LOS003"
    name: ClassVar[str] = "loss-spike"
    severity: ClassVar[Severity] = "warning"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("GRD001", "GRD002", "LOS002", "NUM001")

    window: int = 128
    """Steps."""
    deviations: float = 6.0
    """Standard deviations of the logarithm of the loss."""
    rise: float = 1.2
    """Times the largest loss of the window."""
    worth: float = 0.05
    """Share of the loss of a model that knows nothing."""
    outlier: float = 5.0
    """Times the level before."""
    recovery: int = 50
    """Steps."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, of the spike that lasted longest."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: each loss is another one")
        progress = measured(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values, whose logarithm says nothing")
        series = losses(run)
        if series.height < self.window:
            raise NotApplicable(f"{series.height} steps with a finite loss are too few; {self.window} are needed")
        hits = self._hits(run, series.filter(pl.col("loss") > 0), self.worth * min(progress.reference, progress.start))
        spikes = [spike for step in _first_of_each(hits) if (spike := self._spike(run, series, hits, step)) is not None]
        long = [spike for spike in spikes if spike.lasted is None or spike.lasted > 2]
        short = [spike for spike in spikes if spike not in long and spike.peak > self.outlier * spike.level]
        told = long + (short if len(short) <= 3 else [])
        if told:
            yield self._finding(run, sorted(told, key=lambda spike: spike.step))

    def _hits(self, run: Run, series: pl.DataFrame, least: float) -> pl.DataFrame:
        """Steps whose loss lies far above those before, with the `mean` and `std` of the logarithm of those."""
        log, loss, half = pl.col("loss").log().shift(), pl.col("loss"), self.window // 2
        past = series.with_columns(
            log.rolling_mean(self.window, min_samples=half).alias("mean"),
            log.rolling_std(self.window, min_samples=half).alias("std"),
            loss.shift().rolling_max(self.window, min_samples=half).alias("largest"),
        )
        above = loss.log() - pl.col("mean") > self.deviations * pl.col("std")
        hits = past.filter(above & (loss > self.rise * pl.col("largest")) & (loss > least))
        rate = run.frame("steps", "lr_max").with_columns(
            pl.col("lr_max").shift().rolling_min(self.window, min_samples=1).alias("lowest")
        )
        raised = rate.filter(pl.col("lr_max") > 1.2 * pl.col("lowest")).select("step")
        return hits.join(raised, on="step", how="anti", maintain_order="left")

    def _spike(self, run: Run, series: pl.DataFrame, hits: pl.DataFrame, step: int) -> _Spike | None:
        """The spike that begins at a hit; None if the loss stayed up there, and the batch was like the next."""
        hit = hits.row(by_predicate=pl.col("step") == step, named=True)
        back = math.exp(hit["mean"] + max(math.log(self.rise), 3 * hit["std"]))
        after = series.filter(pl.col("step") >= step).head(20 * self.recovery)
        middle = pl.col("loss").reverse().rolling_median(9, min_samples=1).reverse()  # of this loss and the eight next
        quiet = after.with_columns(middle.alias("middle")).filter((pl.col("middle") <= back) & (pl.col("loss") <= back))
        if quiet.is_empty() and after.height > self.recovery and not self._alone(run, series, step):
            return None
        lasted = None if quiet.is_empty() else int(quiet["step"][0]) - step
        peak = scalar(after.head(max(1, lasted or after.height))["loss"].max())
        deviations = (math.log(hit["loss"]) - hit["mean"]) / hit["std"] if hit["std"] > 0 else math.inf
        return _Spike(step, math.exp(hit["mean"]), peak, deviations, lasted)

    def _alone(self, run: Run, series: pl.DataFrame, step: int) -> bool:
        """Whether a single batch stands out, by its loss beside the next ones, or by its input beside the usual one."""
        after = series.filter(pl.col("step") >= step)["loss"].head(4)
        inputs = run.frame("steps", "input_absmax").drop_nulls()
        usual = inputs.filter(pl.col("step") < step).tail(self.window)["input_absmax"].median()
        there = inputs.filter(pl.col("step") == step)["input_absmax"].max()
        strange = isinstance(usual, float) and isinstance(there, float) and there > self.outlier * usual
        return strange or (len(after) == 4 and after[0] > self.outlier * scalar(after.tail(3).median()))

    def _finding(self, run: Run, spikes: list[_Spike]) -> Finding:
        worst = max(spikes, key=lambda spike: math.inf if spike.lasted is None else spike.lasted)
        if worst.lasted is None:
            outcome = "and was not back when the run ended"
        else:
            outcome = f"and was back after {plural(worst.lasted, 'step')}"
        lasting = worst.lasted is None or worst.lasted > self.recovery
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning" if lasting else "note",
            message=f"At step {count(worst.step)} the loss jumped from {number(worst.level)} to {number(worst.peak)},"
            f" {outcome}.",
            confidence=0.85 if lasting else 0.7,
            first_step=spikes[0].step,
            last_step=max(spike.step + (spike.lasted or 0) for spike in spikes),
            value=worst.deviations,
            threshold=self.deviations,
            evidence=_evidence(run, worst, spikes),
            causes=(
                "A bad batch: values in another unit, wrong labels, a broken sample",
                "A learning rate at the edge of stability",
                "Gradients that are not clipped" if clipping(run) is None else "Clipping that is too loose",
                "An optimizer that had forgotten how large gradients can be (beta2 of Adam)",
            ),
            advice=(
                f"Look at the batches of step {count(worst.step)} and of the one before.",
                "Clip the gradient norm at the 90th percentile of the norms before.",
                "With Adam, try beta2 = 0.95; lower the learning rate if spikes recur.",
            ),
            chart=ChartRef("steps", "loss", reference=worst.level),
        )


def _first_of_each(hits: pl.DataFrame, apart: int = 32, most: int = 50) -> list[int]:
    """The first steps of hits that are close together, the earliest ones."""
    gap = pl.col("step") - pl.col("step").shift()
    return hits.filter(gap.is_null() | (gap > apart))["step"].head(most).to_list()


def _evidence(run: Run, worst: _Spike, spikes: list[_Spike]) -> Evidence:
    supporting = [f"The logarithm of that loss lies {number(worst.deviations, 3)} standard deviations above its past."]
    if len(spikes) > 1:
        supporting.append(f"There are {len(spikes)} spikes, at steps {listed([count(s.step) for s in spikes])}.")
    frame = run.frame("steps", "grad_norm", "input_absmax", "lr_max")
    before, at = frame.filter(pl.col("step") < worst.step).tail(128), frame.filter(pl.col("step") == worst.step)
    for column, name in (("grad_norm", "The gradient norm"), ("input_absmax", "The largest input")):
        usual, value = before[column].median(), at[column].max()
        if isinstance(usual, float) and isinstance(value, float) and value > 3 * usual:
            supporting.append(f"{name} was {number(value)} there, and {number(usual)} before (median).")
    opposing = ("It was a single batch; the next was as before.",) * (worst.lasted in (1, 2))
    return Evidence(tuple(supporting), opposing)
