"""CUR002: steps as large as the curvature allows: descent at the edge of stability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..run import Run
from ..wording import count, number
from .base import Detector


@dataclass(frozen=True)
class EdgeOfStability(Detector):
    """The rate times the sharpness is about two: the loss goes down in zigzags, and a larger rate would not hold.

    ## What it does
    For SGD: multiplies the rate by the largest eigenvalue of the Hessian, over one plus the momentum. Where that was
    looked at too rarely, and gradients are nearly free of noise, alpha tells the same along the steps (they end at the
    mirror point: rate times curvature is alpha plus one). It is a note if the median over the second half of the run
    lies between 1.5 and 2.5.

    ## Why it matters
    Full-batch training drives itself there and is healthy. It says that the rate cannot be larger, and that what looks
    like an oscillating loss is how such training descends.

    ## What to try
    Nothing, if the loss falls over many steps. Else a smaller learning rate, or a warm-up.

    ## Options
    - `low` (1.5, rate times sharpness), `high` (2.5): Cohen et al. 2021, who find it to hover just above 2.
    - `quiet` (0.25, variance of the gradient over its squared norm): more makes alpha noise. A guess.

    ## References
    - Cohen et al. 2021, Gradient descent on neural networks typically occurs at the edge of stability; its appendix on
      momentum.
    """

    code: ClassVar[str] = "CUR002"
    name: ClassVar[str] = "edge-of-stability"
    severity: ClassVar[Severity] = "note"
    requires: ClassVar = {"steps": ("lr",)}

    low: float = 1.5
    """Rate times sharpness."""
    high: float = 2.5
    """Rate times sharpness."""
    quiet: float = 0.25
    """Variance of the gradient over its squared norm."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if not run.groups or any(group.type != "SGD" for group in run.groups):
            raise NotApplicable("the edge is known for SGD only: others scale the curvature")
        late = _late(run)
        by_curvature = late["edge"].drop_nulls()
        by_alpha = late["alpha"].drop_nulls() + 1
        noise = scalar((late["norm_test"] ** 2).median())
        if by_curvature.len() >= 3:
            values, column = by_curvature, "hess_max_ev"
        elif by_alpha.len() >= 8 and noise < self.quiet:
            values, column = by_alpha, "alpha"
        else:
            raise NotApplicable("the curvature was looked at too rarely, and gradients are too noisy for alpha to tell")
        level = scalar(values.median())
        if self.low <= level <= self.high:
            yield self._finding(run, late, level, values.len(), column)

    def _finding(self, run: Run, late: pl.DataFrame, level: float, seen: int, column: str) -> Finding:
        how = "by the largest eigenvalue of the Hessian" if column == "hess_max_ev" else "by alpha, along the steps"
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The rate times the sharpness is {number(level, 3)} over the second half of the run, of at most 2:"
            " the training descends at the edge of stability.",
            confidence=0.5,
            first_step=int(late["step"][0]),
            last_step=run.last_step,
            value=level,
            threshold=self.low,
            evidence=Evidence((f"Median of {count(seen)} probes, {how}.",)),
            causes=("Full or large batches at a large rate, which is healthy", "Learning rate at its limit"),
            advice=(
                "Nothing, if the loss falls over many steps.",
                "If it does not: a smaller learning rate, or a warm-up.",
            ),
            chart=ChartRef("steps", column, reference=1.0 if column == "alpha" else None),
        )


def _late(run: Run) -> pl.DataFrame:
    """The second half of the steps, with `edge`: rate times sharpness over one plus the momentum."""
    momentum = [group.options.get("momentum") for group in run.groups]
    largest = max((float(value) for value in momentum if isinstance(value, (int, float))), default=0.0)
    frame = run.frame("steps", "lr_max", "hess_max_ev", "alpha", "norm_test")
    edge = pl.col("lr_max") * pl.col("hess_max_ev") / (1 + largest)
    return frame.with_columns(pl.when(edge.is_finite()).then(edge).alias("edge")).tail(max(1, frame.height // 2))
