"""STP006: gradients that are clipped while a gradient scaler still has them multiplied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..pace import did_well, fallen, half_time, sound_norms
from ..progress import measured
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class ClippingBeforeUnscaling(Detector):
    """Gradients are clipped while the gradient scaler still has them multiplied, so that next to nothing is left.

    ## What it does
    Where a gradient scaler multiplied the loss, compares the gradient norms after the backward pass (as they would be
    without scaling) with those at the optimizer's step. If clipping comes before `scaler.unscale_`, every norm ends at
    the threshold divided by the scale. That is found where the clipped norms follow the scale when it changes, or,
    where it never did, if they are a round number (1, 0.5, ...) only when multiplied with the scale.

    ## Why it matters
    A threshold of 1 then means one of 1/65 536: the steps are tens of thousands of times too short, and change whenever
    the scale does.

    ## What to try
    `scaler.scale(loss).backward()`, then `scaler.unscale_(optimizer)`, then clip, then `scaler.step(optimizer)` and
    `scaler.update()`.

    ## Options
    - `share` (0.9, of the steps): steps that end at the threshold.
    - `factor` (0.1, clipped over unclipped norm): more is left of gradients that are clipped as they should be.
    - `spread` (0.02, relative): how much the clipped norms times the scale may differ. They differ by rounding only.
    - `steps` (20 steps): fewer prove nothing.

    ## References
    - PyTorch, Automatic mixed precision examples: gradient clipping.
    """

    code: ClassVar[str] = "STP006"
    name: ClassVar[str] = "clipping-before-unscaling"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("grad_norm",)}
    explains: ClassVar[tuple[str, ...]] = ("STP005", "STP002", "LOS001")

    share: float = 0.9
    """Share of the steps."""
    factor: float = 0.1
    """Norm after clipping over norm before."""
    spread: float = 0.02
    """Relative."""
    steps: int = 20
    """Clipped steps."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        scaled = sound_norms(run).filter(pl.col("loss_scale").is_finite() & (pl.col("loss_scale") > 1))
        if scaled.height < self.steps:
            raise NotApplicable("no gradient scaler multiplied the loss, or at fewer than 20 steps that were taken")
        clipped = scaled.filter(pl.col("grad_norm_clipped") < self.factor * pl.col("grad_norm"))
        if clipped.height < self.share * scaled.height:
            return
        threshold = self._threshold(clipped)
        if threshold is not None:
            yield self._finding(run, clipped, threshold)

    def _threshold(self, clipped: pl.DataFrame) -> float | None:
        """The threshold that the scaled gradients were clipped at; None if it was the unscaled ones."""
        raised, plain = clipped["grad_norm_clipped"] * clipped["loss_scale"], clipped["grad_norm_clipped"]
        if self._level(raised) is None:
            return None
        constant = clipped["loss_scale"].n_unique() == 1
        before, after = scalar(raised.median()), scalar(plain.median())
        return before if not constant or (is_round(before) and not is_round(after)) else None

    def _level(self, values: pl.Series) -> float | None:
        """The value that nearly all have, None if they differ."""
        middle = scalar(values.median())
        near = (values - middle).abs() <= self.spread * middle
        return middle if scalar(near.mean()) >= self.share else None

    def _finding(self, run: Run, clipped: pl.DataFrame, threshold: float) -> Finding:
        factor = scalar((clipped["grad_norm_clipped"] / clipped["grad_norm"]).median())
        scale = scalar(clipped["loss_scale"].median())
        severity, outcome = self._outcome(run)
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"Gradients are clipped at {number(threshold)} while multiplied by {count(round(scale))}, which"
            f" leaves {percent(factor)} of them. {outcome}",
            confidence=0.98,
            first_step=int(clipped["step"][0]),
            last_step=int(clipped["step"][-1]),
            value=factor,
            threshold=self.factor,
            evidence=Evidence(_evidence(clipped, threshold)),
            causes=("clip_grad_norm_ is called before scaler.unscale_(optimizer), or unscale_ is missing",),
            advice=("Call scaler.unscale_(optimizer) after the backward pass and before clipping.",),
            chart=ChartRef("steps", "grad_norm", reference=scalar(clipped["grad_norm_clipped"].median())),
        )

    def _outcome(self, run: Run) -> tuple[Severity, str]:
        """How grave it turned out, and what became of the loss in words."""
        progress = measured(run)
        if progress is None:
            return "warning", "What that did to the training cannot be told from its loss."
        start, end = number(progress.start), number(progress.end.value)
        told = f"The loss went from {start} to {end}."
        if did_well(progress):
            return "note", f"{told} The optimizer made up for it."
        half = half_time(run, progress)
        return ("error" if fallen(progress) < 0.5 else "warning" if half is None or half > 0.1 else "note"), told


def _evidence(clipped: pl.DataFrame, threshold: float) -> tuple[str, str]:
    kept, scales = scalar(clipped["grad_norm_clipped"].median()), clipped["loss_scale"].n_unique()
    level = f"The norm at the optimizer's step is {number(kept)} (median): {number(threshold)} divided by the scale."
    if scales > 1:
        return level, f"It followed the scale, which took {count(scales)} values."
    return level, f"Multiplied with the scale it is the round number {number(threshold)}."


def is_round(value: float) -> bool:
    """Whether a number is one that people choose: one or two significant digits, up to one in ten thousand."""
    if not 0 < value < math.inf:
        return False
    return abs(float(f"{value:.1e}") - value) <= 1e-4 * value
