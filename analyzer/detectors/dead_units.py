"""ACT001: units that pass nothing on for any sample, and get no gradient any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..outcome import suffering
from ..progress import adversarial, constant_input
from ..run import Run
from ..units import REST, Stuck, batch_size, dead_units
from ..wording import count, listed, number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class DeadUnits(Detector):
    """Units that pass nothing on, whatever the input, and learn nothing any more.

    ## What it does
    Looks at the share of the units of each layer that were zero for every sample of the batch, probe after probe; where
    activations are functions and not modules, at the share of the rows of a weight whose gradient is exactly zero. It
    fires if at least half of a layer is dead over the last quarter of the probes, or a fifth and far more than at the
    start, *and* the run fared badly: it learned little, or was thrown off. Sparse networks that learn well are healthy.
    Batches below 16 samples tell only if a whole layer is dead: a unit may rest for a few samples.

    ## Why it matters
    A dead ReLU gets no gradient, and so stays dead. Nor does anything below a layer that is dead as a whole.

    ## What to try
    If they are dead from the start: initialise biases with zero, weights by He; scale the inputs. If they died later:
    a smaller learning rate, or a warm-up. Leaky ReLU or GELU do not die.

    ## Options
    - `many` (0.5, share of a layer): SageMaker Debugger's DeadRelu. Calibrated: healthy trainings stayed below 0.42.
    - `some` (0.2, share of a layer, and that much more than at the start): a guess, for a warning.
    - `nearly_all` (0.9, share of a layer, where one batch is repeated): on so few samples half of the units may rest.
    - `learned` (0.3, share of what there was to learn): more counts as faring well. Calibrated.
    - `probes` (10): fewer prove nothing.

    ## References
    - Lu et al. 2019, Dying ReLU and initialization. Karpathy, CS231n. SageMaker Debugger, DeadRelu.
    """

    code: ClassVar[str] = "ACT001"
    name: ClassVar[str] = "dead-units"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("GRD002", "LOS001", "STP002")

    many: float = 0.5
    """Share of a layer."""
    some: float = 0.2
    """Share of a layer."""
    nearly_all: float = 0.9
    """Share of a layer."""
    learned: float = 0.3
    """Share of what there was to learn."""
    probes: int = 10
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, on all layers that have dead units."""
        layers = dead_units(run)
        if not layers:
            raise NotApplicable("no ReLU module and no row of a weight was looked at: dead units would not show")
        if constant_input(run):
            raise NotApplicable("the input is the same for all samples: what units make of it says nothing of them")
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: how a run fares is not known")
        layers = [layer for layer in layers if layer.probes >= self.probes]
        if not layers:
            raise NotApplicable(f"fewer than {self.probes} probes cannot show that units stay dead")
        if not batch_size(run) >= REST:
            layers = [layer for layer in layers if layer.late == 1]
        if run.manifest.mode == "overfit-batch":  # of a few samples, or one and the same, many units rest
            layers = [layer for layer in layers if layer.late >= self.nearly_all]
        found = [layer for layer in layers if layer.late >= self.many or self._grown(layer)]
        harm = suffering(run, self.learned) if found else None
        if harm is not None:
            yield self._finding(run, found, harm)

    def _grown(self, layer: Stuck) -> bool:
        return layer.late >= self.some and layer.late - layer.start >= self.some

    def _finding(self, run: Run, found: list[Stuck], harm: str) -> Finding:
        worst = max(found, key=lambda layer: layer.late)
        grave = worst.late >= self.many
        born = worst.start >= self.many
        names = tuple(layer.layer for layer in found)
        unit = "units" if worst.by == "units" else "rows"
        when = "from the first step on" if born else f"from step {count(worst.since)} on"
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if grave and "only" not in harm else "warning",
            message=f"{percent(worst.late)} of the {unit} of {worst.layer} are dead {when}"
            f" ({plural(len(found), 'layer')} affected), and {harm}.",
            confidence=0.97 if born else 0.6 if grave else 0.4,
            first_step=run.first_step if born else worst.since,
            last_step=run.last_step,
            tensors=names if worst.by == "rows" else (),
            value=worst.late,
            threshold=self.many if grave else self.some,
            unit="share",
            evidence=_evidence(found, worst, harm),
            causes=_BORN if born else _DIED,
            advice=_BORN_ADVICE if born else _DIED_ADVICE,
            chart=ChartRef("modules", "dead_share", names, worst.late)
            if worst.by == "units"
            else ChartRef("layers", "silent_rows", names),
        )


_BORN = (
    "Biases far below zero, or weights that shift all units there",
    "Inputs not scaled, or all of one sign",
    "A layer above that is dead or zero: no gradient comes through it",
)
_DIED = (
    "A learning rate that was too large: one step threw the biases down",
    "Inputs not scaled, or a bad batch",
    "Signals that vanish on the way: only biases are left to move",
)
_BORN_ADVICE = (
    "Initialise biases with zero and weights by He.",
    "Scale the inputs to zero mean and unit variance.",
    "Use a leaky ReLU or GELU, or a normalisation layer before the activation.",
)
_DIED_ADVICE = (
    "Divide the learning rate by 3, or warm it up.",
    "Scale the inputs; clip the gradient norm.",
    "Use a leaky ReLU or GELU.",
)


def _evidence(found: list[Stuck], worst: Stuck, harm: str) -> Evidence:
    parts = [f"{layer.layer} {percent(layer.start)} to {percent(layer.late)}" for layer in found]
    supporting = [
        f"Dead from the first to the last quarter of {plural(worst.probes, 'probe')}: {listed(parts)}.",
        f"How the run fared: {harm}.",
    ]
    opposing = []
    if worst.by == "rows":
        opposing.append("Activations were not seen: rows without a gradient stand for them.")
    if worst.start >= worst.late / 2 and worst.start < 0.5:
        opposing.append(f"A share of {number(worst.start)} was dead at the start already, which is common.")
    return Evidence(tuple(supporting), tuple(opposing))
