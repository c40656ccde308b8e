"""CUR001: batches so small, for the learning rate, that the noise of the gradients keeps the loss up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import Mean, batch_mean, scalar
from ..phases import phases
from ..progress import Progress, adversarial, measured
from ..run import Run
from ..wording import number, percent
from .base import Detector


@dataclass(frozen=True)
class NoiseDominated(Detector):
    """The noise of the gradients holds the loss up: the batch is too small for the learning rate.

    ## What it does
    Estimates how much of the loss is owed to noise: around a minimum, steps along noisy gradients keep it higher by a
    quarter of what each step takes off the loss of its own batch, to first order, whatever the curvature (-g.d / 4; for
    SGD the rate times the squared gradient norm, over 4). It fires if that is a sizeable share of the loss although the
    loss no longer falls and there was more to learn, and the scatter of the individual gradients, where recorded, shows
    that noise and not overshooting along one direction is what moves the parameters.

    ## Why it matters
    Such a run wanders about where it could descend. More steps do not help.

    ## What to try
    A larger batch (or gradients accumulated over several), a smaller or decaying learning rate, an average of the
    weights.

    ## Options
    - `share` (0.04, share of the loss): calibrated. Trainings at their floor had up to 0.009 (0.074 with batches of 16
      at a bold rate), those with batches of one or two samples 0.049 to 0.2.
    - `batch` (8, samples): larger batches are reported as a note, from `large_share` on. Calibrated.
    - `large_share` (0.1, share of the loss): a guess.
    - `scatter` (0.3, variance of the gradient over its squared norm): a guess; pure noise has 1.
    - `learned` (0.9, share of what there was to learn): more is no finding.
    - `steps` (200 steps at full rate): fewer prove nothing.

    ## References
    - McCandlish et al. 2018, An empirical model of large-batch training. Balles et al. 2017, CABS: equation 22 weighs
      the same product against the loss. Mandt, Hoffman, Blei 2017, SGD as approximate Bayesian inference.
    """

    code: ClassVar[str] = "CUR001"
    name: ClassVar[str] = "batch-too-small"
    severity: ClassVar[Severity] = "warning"
    requires: ClassVar = {"steps": ("loss", "grad_norm", "lr")}
    explains: ClassVar[tuple[str, ...]] = ("LOS001",)

    share: float = 0.04
    """Share of the loss."""
    batch: int = 8
    """Samples."""
    large_share: float = 0.1
    """Share of the loss."""
    scatter: float = 0.3
    """Variance of the gradient over its squared norm."""
    learned: float = 0.9
    """Share of what there was to learn."""
    steps: int = 200
    """Steps at full learning rate."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        progress, phase = measured(run), phases(run)
        if adversarial(run) or progress is None or phase is None:
            raise NotApplicable("several optimizers take turns, the loss takes negative values, or no rate is known")
        late = _late(run, *phase.full())
        if late.height < self.steps // 2:
            raise NotApplicable(f"fewer than {self.steps} steps at full learning rate with a finite loss")
        owed = _owed(run, late)
        if owed is None:
            raise NotApplicable("neither slopes nor, of an optimizer without adaptive rates, gradients tell the noise")
        half = late.height // 2
        earlier, later = batch_mean(late["loss"].head(half)), batch_mean(late["loss"].tail(half))
        scatter = scalar((late["norm_test"].drop_nulls() ** 2).median())
        batch = scalar(late["batch_size"].median())
        small = batch <= self.batch
        if progress.learned >= self.learned or _falls(earlier, later) or scatter < self.scatter:
            return
        if owed >= (self.share if small else self.large_share) and math.isfinite(batch):
            yield self._finding(run, progress, late, owed, scatter, batch, small=small)

    def _finding(
        self,
        run: Run,
        progress: Progress,
        late: pl.DataFrame,
        owed: float,
        scatter: float,
        batch: float,
        *,
        small: bool,
    ) -> Finding:
        signal = f"The scatter of the gradient is {number(scatter, 2)} times its squared norm (median; pure noise: 1)."
        known = math.isfinite(scatter)
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if small else "note",
            message=f"About {percent(min(owed, 1.0))} of the loss ({number(progress.end.value)}) is owed to the noise"
            f" of gradients of {number(batch, 3)} samples, and it no longer falls: steps wander instead of descending.",
            confidence=0.75 if small else 0.4,
            first_step=int(late["step"][0]),
            last_step=run.last_step,
            value=owed,
            threshold=self.share if small else self.large_share,
            unit="share of the loss",
            evidence=Evidence(
                (
                    f"Each step takes {percent(min(1.0, 4 * owed))} off the loss of its own batch, and the loss stays.",
                    *((signal,) if known else ()),
                ),
                () if known else ("The scatter of individual gradients was not recorded, or the batch is one sample.",),
            ),
            causes=("The batch is too small for the learning rate", "The learning rate is too large for the batch"),
            advice=(
                "Use a larger batch, or accumulate gradients over several.",
                "Lower the learning rate, or let it decay.",
                "Average the weights over the last steps.",
            ),
            chart=ChartRef("steps", "norm_test" if known else "loss"),
        )


def _late(run: Run, first: int, last: int) -> pl.DataFrame:
    """The second half of the steps at full rate with a finite loss."""
    names = ("loss", "grad_norm", "lr_max", "batch_size", "start_slope", "norm_test")
    frame = run.frame("steps", *names).filter(pl.col("loss").is_finite() & pl.col("step").is_between(first, last))
    return frame.tail(frame.height // 2)


def _owed(run: Run, late: pl.DataFrame) -> float | None:
    """Share of the loss that noise adds: a quarter of -g.d, or of the rate times |g|^2, over it; None if unknown."""
    level = scalar(late["loss"].mean())
    slopes = late["start_slope"].drop_nulls()
    if slopes.len() >= 5:
        return -scalar(slopes.mean()) / 4 / level if level > 0 else None
    if level > 0 and all(group.type == "SGD" for group in run.groups):
        return scalar((late["lr_max"] * late["grad_norm"] ** 2).mean()) / 4 / level
    return None


def _falls(earlier: Mean, later: Mean) -> bool:
    """Whether the loss fell significantly, and not by next to nothing."""
    fall = earlier.value - later.value
    return fall > 2 * math.hypot(earlier.error, later.error) and fall > 0.05 * later.value
