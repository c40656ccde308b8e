"""UPD004: an initialisation that is so wide that outputs are far too large, or activations saturate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..gains import gains
from ..pace import did_well
from ..progress import measured, uninformed
from ..run import Run
from ..starts import aftermath, description, wide_start, witnesses
from ..wording import number
from .base import Detector


@dataclass(frozen=True)
class WideInitialisation(Detector):
    """The weights begin so large that the outputs are far off before the first update.

    ## What it does
    Compares the very first loss with that of a model which knows nothing (ln C for C classes); for a regression, the
    spread of the first predictions with that of the targets. A loss that was merely scaled does not count. Otherwise by
    the weights themselves: what half of the layers multiply the size of their input by, in itself and compared with the
    layer that does so least. A bounded activation, as tanh, hides that from the outputs, and saturates; a run that did
    well is no finding. Where the gradients of the weights explode as well, on their way through three layers or more or
    through time, or where the input is not scaled, it is the business of GRD001.

    ## Why it matters
    The first updates serve to shrink what was too large, and may overshoot at that. A confident start is a wrong one.

    ## What to try
    Leave PyTorch's initialisation, or initialise by He (ReLU) or Xavier (tanh, sigmoid); the last layer smaller.

    ## Options
    - `loss_ratio` (3, times the loss of uniform predictions): calibrated. Healthy trainings began at 0.95 to 2.3. Two
      is enough where the largest gradient of a weight is 150 times that of the last bias (healthy: up to 20).
    - `spread_ratio` (7, times the spread of the targets, regression): calibrated. Healthy trainings stayed below 6.5.
    - `widest_logits` (20, largest less smallest logit): decides where the loss was scaled, so that its level says
      nothing. Calibrated, healthy trainings began with 0.2 to 14.
    - `gain` (8, output over input by root mean square, and as many times that of another layer): calibrated. The widest
      layer of healthy networks had up to 1.75 (He 1.4, Xavier 1), of wide initialisations 4.4 to 20.
    - `recovery` (0.2, share of the run, at least 100 steps): a start that is mended by then is a note. A guess.

    ## References
    - Karpathy, A recipe for training neural networks 2019: verify the loss at initialisation.
    - Glorot and Bengio 2010; He et al. 2015.
    """

    code: ClassVar[str] = "UPD004"
    name: ClassVar[str] = "initialisation-too-large"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("NUM001", "LOS001", "GRD002", "ACT001", "ACT002", "DAT007", "GEN001")

    loss_ratio: float = 3.0
    """Times the loss of uniform predictions."""
    spread_ratio: float = 7.0
    """Times the spread of the targets."""
    widest_logits: float = 20.0
    """Largest less smallest logit."""
    gain: float = 8.0
    """Root mean square of the weights times the root of their fan-in."""
    recovery: float = 0.2
    """Share of the run."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if run.attempts[0].first_step != 0:
            raise NotApplicable("the run is continued: its first outputs are not those of an initialisation")
        wide = wide_start(run, self.loss_ratio, self.spread_ratio, self.widest_logits)
        if wide is None:
            yield from self._by_weights(run)
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
            causes=_CAUSES,
            advice=_ADVICE,
            chart=ChartRef("steps", "loss", reference=wide.level),
        )

    def _by_weights(self, run: Run) -> Iterator[Finding]:
        """Where bounded activations hide from the outputs how wide the weights are."""
        found, progress = gains(run), measured(run)
        middle = statistics.median_high(found.values()) if len(found) > 1 else 0.0
        if middle < self.gain or middle < self.gain * min(found.values()):
            return
        if progress is None or did_well(progress):  # where the scale of the weights matters little, as before a norm
            return
        widest, narrowest = max(found, key=lambda name: found[name]), min(found, key=lambda name: found[name])
        yield Finding(
            code=self.code,
            name=self.name,
            severity="error" if uninformed(run, progress) else "warning",
            message=f"Half of the layers multiply the size of their input by {number(middle, 3)} or more before any"
            f" update; He's initialisation does so by {number(math.sqrt(2), 2)}.",
            confidence=0.8,
            first_step=run.first_step,
            last_step=run.last_step,
            tensors=(widest,),
            value=middle,
            threshold=self.gain,
            evidence=Evidence(
                (f"{widest} does so by {number(found[widest], 3)}, {narrowest} by {number(found[narrowest], 3)}.",),
                ("The outputs are no larger than they should be: something bounds them.",),
            ),
            causes=_CAUSES,
            advice=_ADVICE,
            chart=ChartRef("layers", "param_norm"),
        )


_CAUSES = ("Initialisation too wide, in the last layer above all", "Weights loaded for another architecture")
_ADVICE = (
    "Initialise by He (ReLU) or Xavier (tanh, sigmoid), the last layer smaller.",
    "Check that the first loss is ln(classes), or the variance of the targets.",
)
