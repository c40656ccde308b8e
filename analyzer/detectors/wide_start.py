"""UPD004: an initialisation that is so wide that the first outputs are far too large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Finding, NotApplicable, Severity
from ..run import Run
from ..starts import aftermath, description, wide_start, witnesses
from .base import Detector


@dataclass(frozen=True)
class WideInitialisation(Detector):
    """The weights begin so large that the outputs are far off before the first update.

    ## What it does
    Compares the very first loss with that of a model which knows nothing (ln C for C classes); for a regression, the
    spread of the first predictions with that of the targets. A loss that was merely scaled does not count. Where the
    gradients of the weights explode as well, on their way through three layers or more or through time, or where the
    input is not scaled, it is the business of GRD001.

    ## Why it matters
    The first updates serve to shrink what was too large, and may overshoot at that. A confident start is a wrong one.

    ## What to try
    Leave PyTorch's initialisation, or initialise by He (ReLU) or Xavier (tanh, sigmoid); the last layer smaller.

    ## Options
    - `loss_ratio` (3, times the loss of uniform predictions): calibrated. Healthy trainings began at 0.95 to 2.3. Two
      is enough where the largest gradient of a weight is 150 times that of the last bias (healthy: up to 20).
    - `spread_ratio` (5, times the spread of the targets, regression): calibrated. Healthy trainings stayed below 1.
    - `widest_logits` (20, largest less smallest logit): decides where the loss was scaled, so that its level says
      nothing. Calibrated, healthy trainings began with 0.2 to 14.
    - `recovery` (0.2, share of the run, at least 100 steps): a start that is mended by then is a note. A guess.

    ## References
    - Karpathy, A recipe for training neural networks 2019: verify the loss at initialisation.
    - Glorot and Bengio 2010; He et al. 2015.
    """

    code: ClassVar[str] = "UPD004"
    name: ClassVar[str] = "initialisation-too-large"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("NUM001", "LOS001", "GRD002", "ACT001", "ACT002")

    loss_ratio: float = 3.0
    """Times the loss of uniform predictions."""
    spread_ratio: float = 5.0
    """Times the spread of the targets."""
    widest_logits: float = 20.0
    """Largest less smallest logit."""
    recovery: float = 0.2
    """Share of the run."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if run.attempts[0].first_step != 0:
            raise NotApplicable("the run is continued: its first outputs are not those of an initialisation")
        wide = wide_start(run, self.loss_ratio, self.spread_ratio, self.widest_logits)
        if wide is None:
            return
        if wide.exploding:
            raise NotApplicable("gradients explode as well, or the input is not scaled (GRD001)")
        severity, outcome, last = aftermath(run, wide, self.recovery)
        yield Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"{description(wide)}, before any update. {outcome}",
            confidence=0.9,
            first_step=wide.step,
            last_step=last,
            value=wide.value,
            threshold=wide.threshold,
            evidence=witnesses(run, wide),
            causes=("Initialisation too wide, in the last layer above all", "Weights loaded for another architecture"),
            advice=(
                "Initialise by He (ReLU) or Xavier (tanh, sigmoid), the last layer smaller.",
                "Check that the first loss is ln(classes), or the variance of the targets.",
            ),
            chart=ChartRef("steps", "loss", reference=wide.level),
        )
