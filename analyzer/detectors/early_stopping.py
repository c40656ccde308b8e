"""CUR003: gradients that are no larger than their noise: evidence that nothing is left to learn from these batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class EarlyStopping(Detector):
    """The gradients at the end are what noise alone would make them.

    ## What it does
    Compares each entry of the batch gradient with its variance over the samples (one less the batch size times the mean
    signal-to-noise ratio). It is a note if that is positive at four fifths of the probes in the last third of the run.
    The formula was derived for plain SGD; as evidence on the gradients it holds for any optimizer.

    ## Why it matters
    Further steps on such batches fit noise. It says nothing on whether the result is good: a stuck run shows it too.

    ## What to try
    Stop here, let the learning rate decay, or use larger batches.

    ## Options
    - `persistence` (0.8, share of the probes): reference. Pure noise alone makes it positive at about half of them.
    - `probes` (8, in the last third): fewer prove nothing.

    ## References
    - Mahsereci et al. 2017, Early stopping without a validation set, equation 7. Schneider et al. 2021, Cockpit.
    """

    code: ClassVar[str] = "CUR003"
    name: ClassVar[str] = "only-noise-left"
    severity: ClassVar[Severity] = "note"
    requires: ClassVar = {"steps": ("gsnr_sum",)}

    persistence: float = 0.8
    """Share of the probes."""
    probes: int = 8
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        frame = run.frame("steps", "early_stopping")
        late = frame.tail(max(1, frame.height // 3)).drop_nulls()
        if late.height < self.probes:
            raise NotApplicable(
                f"{late.height} probes in the last third of the run are too few; {self.probes} are needed"
            )
        share, level = scalar((late["early_stopping"] > 0).mean()), scalar(late["early_stopping"].median())
        if share < self.persistence:
            return
        yield Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"At {percent(share)} of the probes from step {count(int(late['step'][0]))} on, the gradient is no"
            " larger than its noise.",
            confidence=0.4,
            first_step=int(late["step"][0]),
            last_step=run.last_step,
            value=share,
            threshold=self.persistence,
            unit="share",
            evidence=Evidence((f"The evidence is {number(level, 2)} (median; positive: only noise).",)),
            causes=("The training has converged", "The batch is too small for what is left to learn"),
            advice=("Stop here, or let the learning rate decay.", "Use larger batches to go on."),
            chart=ChartRef("steps", "early_stopping", reference=0.0),
        )
