"""GRD003: gradients that are never cleared, and add up from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..outcome import suffering
from ..progress import adversarial
from ..run import Run
from ..wires import leaves_of
from ..wording import number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class StaleGradients(Detector):
    """The gradients of the step before are still there when the next one is computed, and add up.

    ## What it does
    Compares what `.grad` held right before the first backward pass of a step with what it held when the optimizer
    stepped the time before. If nothing cleared it, the two are equal to the last digit. Micro-batches that are
    accumulated on purpose within a step do not count, nor do steps before which no optimizer stepped, nor gradients of
    tensors that no optimizer holds (they are the business of WIR001).

    ## Why it matters
    Each update then follows the sum of all gradients so far: momentum without friction. The steps grow, the loss
    oscillates or blows up; adaptive optimizers hide it and are merely worse.

    ## What to try
    Call `optimizer.zero_grad()` once for each optimizer step, before the backward pass. If gradients are accumulated
    over several batches: clear them after each step of the optimizer.

    ## Options
    - `persistence` (0.5, share of the steps): a guess. Without the fault it is 0, with it 1 or (cleared now and then)
      somewhat less.
    - `tolerance` (0.001, relative difference between the norms): the rounding of a norm in float32. Calibrated, the
      fault stayed below 1e-6.
    - `steps` (10): fewer prove nothing.

    ## References
    - Jiang et al. 2025, TrainCheck: invariants on the order of calls.
    - torch.optim.Optimizer.zero_grad, in the documentation of PyTorch.
    """

    code: ClassVar[str] = "GRD003"
    name: ClassVar[str] = "gradients-not-cleared"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("grad_norm",)}
    explains: ClassVar[tuple[str, ...]] = (
        "STP001",
        "STP002",
        "LOS001",
        "NUM001",
        "GRD001",
        "GRD002",
        "ACT001",
        "ACT002",
        "CUR001",
    )

    persistence: float = 0.5
    """Share of the steps."""
    tolerance: float = 0.001
    """Relative difference of norms."""
    steps: int = 10
    """Steps."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: each leaves the gradients of the other's tensors")
        judged = _leftovers(run)
        if judged.height < self.steps:
            raise NotApplicable(f"{plural(judged.height, 'step')} followed a step of the optimizer; too few to tell")
        same = (pl.col("stale") / pl.col("before") - 1).abs() <= self.tolerance
        kept = judged.filter(same)
        share = kept.height / judged.height
        left = kept["stale"].n_unique() == 1 < kept["before"].n_unique()  # in tensors that nobody trains any longer
        if share >= self.persistence and not left:
            yield self._finding(run, kept, share)

    def _finding(self, run: Run, kept: pl.DataFrame, share: float) -> Finding:
        harm = suffering(run, learned=0.3)
        norms = run.frame("steps", "grad_norm").filter(pl.col("grad_norm").is_finite())["grad_norm"]
        told = f"At {percent(share)} of the steps the gradient of the step before was still there, unchanged"
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning" if harm is None else self.severity,
            message=f"{told}: zero_grad is missing, and gradients add up{f'; {harm}' if harm else ''}.",
            confidence=0.97,
            first_step=int(kept["step"][0]),
            last_step=int(kept["step"][-1]),
            value=share,
            threshold=self.persistence,
            unit="share",
            evidence=_evidence(kept, norms, harm),
            causes=(
                "optimizer.zero_grad() is never called",
                "It is called between the backward pass and the step of the optimizer, or on another optimizer",
                "The optimizer steps after each of several batches that were meant to be accumulated",
            ),
            advice=(
                "Call optimizer.zero_grad() in every step, before the backward pass.",
                "To accumulate over several batches: step and clear together, after the last of them.",
            ),
            chart=ChartRef("steps", "grad_norm"),
        )


def _leftovers(run: Run) -> pl.DataFrame:
    """`step`, `stale` and `before`: norms of what the optimizer's gradients were before a step, and at the last one.

    Only steps right after one at which an optimizer stepped, with finite gradients. What is left in tensors that no
    optimizer holds is subtracted; a step at which that is nearly all there was is left out.
    """
    last = pl.coalesce("grad_norm_clipped", "grad_norm")
    frame = run.frame("steps", "stale_grad_norm", "grad_norm", "grad_norm_clipped", "optimizer", "skipped")
    follows = (pl.col("step").shift() == pl.col("step") - 1) & pl.col("optimizer").shift().is_not_null()
    frame = frame.with_columns(
        pl.col("stale_grad_norm").fill_null(0.0).alias("stale"), last.shift().alias("before"), follows.alias("follows")
    ).filter("follows")
    strangers = [leaf.name for leaf in leaves_of(run) if leaf.reached and leaf.requires_grad and not leaf.held]
    if strangers:
        frame = _without(run, frame, strangers)
    sound = pl.col("stale").is_finite() & pl.col("before").is_finite() & (pl.col("before") > 0)
    return frame.filter(sound).select("step", "stale", "before")


def _without(run: Run, frame: pl.DataFrame, strangers: list[str]) -> pl.DataFrame:
    """The same without the part of tensors that no optimizer holds, at steps that follow a probe."""
    rows = run.frame("layers", "grad_norm", "grad_norm_clipped").filter(pl.col("tensor").is_in(strangers))
    left = pl.coalesce("grad_norm_clipped", "grad_norm").cast(pl.Float64).pow(2)
    theirs = rows.group_by("step").agg(left.sum().alias("theirs")).with_columns(pl.col("step") + 1)
    joined = frame.join(theirs, on="step", how="inner", maintain_order="left")
    stale, before = (pl.col(name).pow(2) - pl.col("theirs") for name in ("stale", "before"))
    told = before > 1e-3 * pl.col("before").pow(2)
    return joined.filter(told).with_columns(stale.clip(0).sqrt().alias("stale"), before.sqrt().alias("before"))


def _evidence(kept: pl.DataFrame, norms: pl.Series, harm: str | None) -> Evidence:
    supporting = [f"At {plural(kept.height, 'step')} `.grad` still held the gradient of the last update, by its norm."]
    opposing = []
    tenth = max(1, norms.len() // 10)
    first, last = scalar(norms.head(tenth).median()), scalar(norms.tail(tenth).median())
    if last > 2 * first:
        supporting.append(f"The gradient norm grew from {number(first)} to {number(last)} (medians).")
    if harm is None:
        opposing.append("The loss shows no harm.")
    return Evidence(tuple(supporting), tuple(opposing))
