"""GRD001: gradients that are far too large from the start, or that grow without bound later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import block_length, scalar
from ..overshoot import Harm, harm, is_early, sudden
from ..phases import phases
from ..progress import adversarial, measured
from ..run import Run
from ..starts import WideStart, aftermath, description, wide_start, witnesses
from ..wording import count, number
from .base import Detector


@dataclass(frozen=True)
class ExplodingGradients(Detector):
    """The gradients are far too large: from the start, for the initialisation, or growing without bound later.

    ## What it does
    *At the start.* Compares the very first loss, before any update, with that of a model which knows nothing (ln C for
    C classes; for a regression, the spread of the predictions with that of the targets), and the gradients of the
    weights with that of the last bias: they must have grown fiftyfold on their way through three layers or more, or
    through time. A loss that was merely scaled does not count: the logits must be as wide. In shallow networks it is
    the business of UPD004.
    *Later.* Looks for gradient norms that rise tenfold above their own past while the loss loses what it had learned,
    and does not recover. What begins with the first steps or after the learning rate rose is left to STP001; a jump of
    the loss that no larger gradient led up to is left to LOS002.

    ## Why it matters
    Weights that are too wide multiply the signal in every layer, forward and backward. The first updates then throw the
    parameters far off, or no learning rate fits all layers.

    ## What to try
    Scale the inputs to zero mean and unit variance first. Initialise by He (ReLU) or Xavier (tanh), the last layer
    smaller; add normalisation layers. Clip the gradient norm, in recurrent networks above all.

    ## Options
    - `loss_ratio` (3, times the loss of uniform predictions): calibrated. Healthy trainings began at 0.97 to 1.21,
      networks four times too wide, which does no harm if there are few layers, at 2.3 to 2.9.
    - `spread_ratio` (7, times the spread of the targets, regression): calibrated. Healthy trainings stayed below 6.5.
    - `widest_logits` (20, largest less smallest logit): decides where the loss was scaled, so that its level says
      nothing. Calibrated, healthy trainings began with 0.2 to 4.1.
    - `growth` (10, times the median gradient norm before): a guess; AUTOTRAINER takes 70 between layers.
    - `recovery` (0.2, share of the run, at least 100 steps): a start that is mended by then is a note. A guess.

    ## References
    - Glorot and Bengio 2010; He et al. 2015. Pascanu et al. 2013 on clipping.
    - Karpathy, A recipe for training neural networks 2019: verify the loss at initialisation.
    - Zhang et al. 2021, AUTOTRAINER.
    """

    code: ClassVar[str] = "GRD001"
    name: ClassVar[str] = "exploding-gradients"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "grad_norm")}
    explains: ClassVar[tuple[str, ...]] = ("NUM001", "LOS001", "GRD002", "ACT001", "ACT002", "DAT007")

    loss_ratio: float = 3.0
    """Times the loss of uniform predictions."""
    spread_ratio: float = 7.0
    """Times the spread of the targets."""
    widest_logits: float = 20.0
    """Largest less smallest logit."""
    growth: float = 10.0
    """Times the median gradient norm before."""
    recovery: float = 0.2
    """Share of the run."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding: the start explains what comes later."""
        wide = wide_start(run, self.loss_ratio, self.spread_ratio, self.widest_logits)
        if wide is not None:
            if wide.exploding:
                yield self._at_start(run, wide)
                return
            raise NotApplicable("the outputs were far too large before the first update, not the gradients (UPD004)")
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: neither loss nor gradients have to settle")
        progress, phase = measured(run), phases(run)
        if progress is None or phase is None or run.step_count < 100:
            raise NotApplicable(
                "the start is sound; later growth needs 100 steps with positive losses and recorded learning rates"
            )
        damage = harm(run, progress, phase)
        if damage is not None and not is_early(damage.onset, phase, run.step_count):
            yield from self._later(run, damage)

    def _at_start(self, run: Run, wide: WideStart) -> Finding:
        severity, outcome, last = aftermath(run, wide, self.recovery)
        causes = (
            "Initialisation too wide: each layer multiplies the signal",
            "Inputs not scaled",
            "Weights loaded for another architecture",
        )
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"{description(wide)}, before any update: outputs and gradients are far too large. {outcome}",
            confidence=0.6 if wide.unscaled else 0.9,
            first_step=wide.step,
            last_step=last,
            tensors=_extreme(run, wide),
            value=wide.value,
            threshold=wide.threshold,
            evidence=witnesses(run, wide),
            causes=(causes[1], causes[0], causes[2]) if wide.unscaled else causes,
            advice=(
                "Scale the inputs to zero mean and unit variance.",
                "Initialise by He (ReLU) or Xavier (tanh, sigmoid), the last layer smaller.",
                "Add normalisation layers, or clip the gradient norm while the first steps settle.",
            ),
            chart=ChartRef("steps", "loss", reference=wide.level),
        )

    def _later(self, run: Run, damage: Harm) -> Iterator[Finding]:
        norms = run.frame("steps", "grad_norm").filter(pl.col("grad_norm").is_finite())
        before = scalar(norms.filter(pl.col("step") < damage.onset)["grad_norm"].tail(1000).median())
        after = norms.filter(pl.col("step") >= damage.onset - 3)["grad_norm"]
        level = scalar(after.head(block_length(run.step_count)).quantile(0.75))
        if damage.recovered or not level >= self.growth * before > 0 or sudden(run, damage.onset):
            return
        ratio = level / before
        # What began right before the end may have been about to pass.
        lasting = damage.kind == "non-finite" or (run.last_step or 0) - damage.onset >= max(100, run.step_count // 10)
        yield Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if lasting else "warning",
            message=f"From step {count(damage.onset)} on the gradient norm is around {number(level)},"
            f" {number(ratio, 3)} times its median before ({number(before)}), and the loss is {damage.kind}"
            f" ({number(damage.level)}).",
            confidence=0.7 if lasting else 0.4,
            first_step=damage.onset,
            last_step=damage.last_step,
            value=ratio,
            threshold=self.growth,
            evidence=Evidence(
                (
                    f"The gradient norm was {number(before)} (median) up to step {count(damage.onset)}.",
                    f"The loss reached {number(damage.level)}; {number(damage.limit)} would have been harmless.",
                ),
                (
                    "The learning rate did not rise before it, and the run had been sound for long.",
                    *("The run ended soon after: it may have been about to pass.",) * (not lasting),
                ),
            ),
            causes=(
                "Learning rate at the edge of stability",
                "A recurrent or very deep network without gradient clipping",
                "A bad batch, from which the optimizer's state did not recover",
            ),
            advice=(
                "Clip the gradient norm at the 90th percentile of the norms before.",
                "Lower the learning rate by a factor of 3, or decay it earlier.",
                "Look at the batches of the steps right before.",
            ),
            chart=ChartRef("steps", "grad_norm", reference=self.growth * before),
        )


def _extreme(run: Run, wide: WideStart) -> tuple[str, ...]:
    """The tensors with the largest relative gradients at that step, up to three."""
    rows = run.frame("layers", "grad_ratio").filter((pl.col("step") == wide.step) & pl.col("grad_ratio").is_finite())
    return tuple(rows.sort("grad_ratio", descending=True, maintain_order=True)["tensor"].head(3))
