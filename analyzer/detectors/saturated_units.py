"""ACT002: units of tanh, sigmoid and the like that sit at the flat end of their range for every sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..outcome import suffering
from ..progress import adversarial
from ..run import Run
from ..units import REST, Stuck, batch_size, flat_values, saturated_units
from ..wording import count, listed, percent, plural
from .base import Detector


@dataclass(frozen=True)
class SaturatedUnits(Detector):
    """Units of tanh or sigmoid are stuck where they are flat, and pass no gradient on.

    ## What it does
    Looks at the share of the units of each bounded activation that were at the same flat end of their range for every
    sample of the batch, probe after probe. It fires if that is half of a layer over the last quarter of the probes, and
    the run fared badly; or if from the first step on half of the values are at one end or the other. Saturation that
    comes with training and does no harm, as of an output that is sure of itself, is none.

    ## Why it matters
    Where an activation is flat its slope is next to nothing, and so is the gradient of all that lies below.

    ## What to try
    Smaller initial weights (Xavier), inputs of mean zero and variance one, a smaller learning rate, a normalisation
    layer before the activation, or an activation without flat ends.

    ## Options
    - `many` (0.5, share of a layer): SageMaker Debugger's SaturatedActivation. Calibrated: healthy trainings stayed
      below 0.1, saturated ones above 0.69.
    - `flat` (0.5, share of the values of a layer, at the start and late): calibrated. Healthy trainings started below
      0.15 and ended below 0.3, with weights that were far too large it was 0.74 throughout.
    - `learned` (0.3, share of what there was to learn): more counts as faring well. Calibrated.
    - `probes` (10): fewer prove nothing.

    ## References
    - Glorot and Bengio 2010, figures 2 and 3. SageMaker Debugger, SaturatedActivation.
    """

    code: ClassVar[str] = "ACT002"
    name: ClassVar[str] = "saturated-units"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",), "modules": ("saturated_share",)}
    explains: ClassVar[tuple[str, ...]] = ("GRD002", "LOS001", "STP002", "DAT007", "GEN001")

    many: float = 0.5
    """Share of a layer."""
    flat: float = 0.5
    """Share of the values."""
    learned: float = 0.3
    """Share of what there was to learn."""
    probes: int = 10
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, on all layers that are saturated."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: how a run fares is not known")
        layers = [layer for layer in saturated_units(run) if layer.probes >= self.probes]
        if not layers:
            raise NotApplicable(f"fewer than {self.probes} probes cannot show that units stay saturated")
        if not batch_size(run) >= REST:
            raise NotApplicable(f"batches below {REST} samples do not tell saturated units from others")
        found = [layer for layer in layers if layer.late >= self.many]
        flat = [x for x in flat_values(run) if x.probes >= self.probes and min(x.start, x.late) >= self.flat]
        harm = suffering(run, self.learned) if found or flat else None
        if found and harm is not None:
            yield self._finding(run, found, "units", harm)
        elif flat:
            yield self._finding(run, flat, "values", harm)

    def _finding(self, run: Run, found: list[Stuck], what: Literal["units", "values"], harm: str | None) -> Finding:
        worst, threshold = max(found, key=lambda layer: layer.late), self.many if what == "units" else self.flat
        born = worst.start >= threshold
        names = tuple(layer.layer for layer in found)
        parts = [f"{layer.layer} {percent(layer.start)} to {percent(layer.late)}" for layer in found]
        when = "from the first step on" if born else f"from step {count(worst.since)} on"
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning" if harm is None or "only" in harm else self.severity,
            message=f"{percent(worst.late)} of the {what} of {worst.layer} are saturated"
            f"{' for every sample' if what == 'units' else ''}"
            f" {when} ({plural(len(found), 'layer')} affected){f', and {harm}' if harm else ''}.",
            confidence=0.97 if born and harm else 0.7,
            first_step=run.first_step if born else worst.since,
            last_step=run.last_step,
            value=worst.late,
            threshold=threshold,
            unit="share",
            evidence=Evidence(
                (f"Saturated from the first to the last quarter of the probes: {listed(parts)}.",),
                () if harm else ("The run did learn: it may be slower than it has to be.",),
            ),
            causes=("Initial weights or inputs too large", "Biases far from zero", "Learning rate too large")
            if born
            else ("Learning rate too large", "Initial weights too large", "Inputs not scaled"),
            advice=(
                "Initialise by Xavier, and scale the inputs to zero mean and unit variance.",
                "Divide the learning rate by 3, or warm it up.",
                "Put a normalisation layer before the activation, or use ReLU or GELU.",
            ),
            chart=ChartRef("modules", "saturated_share" if what == "units" else "flat_share", names),
        )
