"""LOS004: a loss that swings to and fro and gets nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..pace import did_well, last_quarters, still_falling
from ..phases import phases
from ..progress import adversarial, losses, measured
from ..run import Run
from ..schedule import rates
from ..swings import Swings, swings
from ..wording import count, number
from .base import Detector


@dataclass(frozen=True)
class OscillatingLoss(Detector):
    """The mean loss swings to and fro by far more than its noise, and gets nowhere.

    ## What it does
    Looks at the mean losses of blocks of steps, on several time scales, for rises that are larger than six standard
    errors, than a fifth of the loss, and than a twentieth of what there is to learn. Three of them, or two of which one
    is large, are a finding where the loss of the last quarter is not significantly below that of the quarter
    before and much is left to learn. Losses that follow a learning rate which rises are left out.

    ## Why it matters
    Every swing undoes what the one before had learned. It is a symptom: other rules name the cause where they can.

    ## What to try
    Divide the learning rate by 3, or lower the momentum. Shuffle the data: batches that hold one kind of sample at a
    time look like this. Inspect a batch with its labels.

    ## Options
    - `rises` (3 rises): a guess; healthy trainings had none.
    - `largest` (1.5, times the loss at the low before): with such a one, two rises are enough.
    - `errors` (6 standard errors of a block mean).
    - `share` (0.2, of the loss at the low before).
    - `worth` (0.05, share of the loss of a model that knows nothing, or of the first loss).
    - `steps` (100 steps after the warm-up): fewer prove nothing.

    ## References
    - Full Stack Deep Learning, Troubleshooting: the loss oscillates.
    """

    code: ClassVar[str] = "LOS004"
    name: ClassVar[str] = "oscillating-loss"
    severity: ClassVar[Severity] = "warning"
    requires: ClassVar = {"steps": ("loss",)}

    rises: int = 3
    """Rises."""
    largest: float = 1.5
    """Times the loss at the low before."""
    errors: float = 6.0
    """Standard errors."""
    share: float = 0.2
    """Share of the loss."""
    worth: float = 0.05
    """Share of the loss of a model that knows nothing."""
    steps: int = 100
    """Steps."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the loss does not have to settle")
        progress, phase = measured(run), phases(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values: how much it swings relative to what is not known")
        begin = None if phase is None else phase.full_from
        if phase is not None and begin is None:
            raise NotApplicable("the learning rate was still rising when the run ended")
        series = losses(run).filter(pl.col("step") >= (begin or 0))
        if series.height < self.steps:
            raise NotApplicable(f"{series.height} steps after the warm-up are too few; {self.steps} are needed")
        if _rate_rises(run, begin or 0):
            raise NotApplicable("the learning rate rises again after the warm-up: the loss may follow it")
        if did_well(progress) or still_falling(run):
            return
        found = swings(series, self.worth * min(progress.reference, progress.start), self.errors, self.share)
        if found is not None and (found.rises >= self.rises or (found.rises == 2 and found.largest > self.largest)):
            yield self._finding(run, found)

    def _finding(self, run: Run, found: Swings) -> Finding:
        before, end = last_quarters(run)
        fast = found.period <= 2
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The loss rose {count(found.rises)} times by {number(found.height, 3)} (median) or so, once in"
            f" {count(round(found.period))} steps, and ended at {number(end.value)}, after {number(before.value)} the"
            " quarter before.",
            confidence=0.75,
            first_step=found.first_step,
            last_step=run.last_step,
            value=float(found.rises),
            threshold=float(self.rises),
            evidence=Evidence(
                (
                    f"The largest rise was by a factor of {number(found.largest, 3)}.",
                    "It goes up and down with every step."
                    if fast
                    else f"The standard error of what is compared is {number(found.noise, 2)}.",
                )
            ),
            causes=(
                "A learning rate that is too large",
                "Momentum too close to 1",
                "Data that is not shuffled: batches hold one kind of sample at a time",
                "Labels that are wrong or shuffled apart from their inputs",
            ),
            advice=(
                "Divide the learning rate by 3, or lower the momentum to 0.9.",
                "Shuffle the data, and look at the batches of a high and of a low.",
            ),
            chart=ChartRef("steps", "loss"),
        )


def _rate_rises(run: Run, begin: int) -> bool:
    series = rates(run).filter(pl.col("step") >= begin)["lr_max"]
    return len(series) > 1 and scalar((series / series.cum_min()).max()) > 1.2
