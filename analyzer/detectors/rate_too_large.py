"""STP001: steps that are too large, and a loss that they harmed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..overshoot import Harm, Reach, harm, is_early, reach
from ..phases import Phases, phases
from ..progress import Progress, adversarial, measured
from ..run import Run
from ..starts import wide_start
from ..strides import overwriting, restless
from ..wording import count, number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class RateTooLarge(Detector):
    """The learning rate is too large: the steps overshoot, and the loss shows it.

    ## What it does
    Asks for two witnesses. *The loss:* it stays significantly above where it began, is no longer finite, learned
    nothing after an early jump or after the gradients died, or lost again most of what it had learned. *The steps*
    around the onset of that: the 90th percentile of alpha exceeds 1 (they ended higher on the far wall of the parabola
    than they began), or an update was larger than a tenth of the weights in half of the layers. It looks only where a
    rate shows: at the start, in and after warm-up, and after the rate rose. A run whose outputs are far too large
    before the first update is left to GRD001 and UPD004. Steps alone are worth a note, whatever the loss says: one that
    moved half of the layers by more than their own norm, or a tenth of all that moved them by more than 6 % of it; the
    latter are an error where nothing at all was learned. The mean of alpha decides nothing: good trainings overshoot a
    little all the time.

    ## Why it matters
    Steps that overshoot throw the parameters where the model knows less than nothing. Units die there, and the loss
    stays at the value of a constant prediction however long one trains.

    ## What to try
    Divide the rate by 3 until the loss of the first 100 steps falls; warm it up; mind that momentum m multiplies the
    step by 1/(1-m); scale the inputs; clip the gradient norm.

    ## Options
    - `alpha` (1): the mirror point of the parabola, by definition. In calibration healthy trainings had 90th
      percentiles up to 1.5 (full batch); without harm to the loss that is no finding.
    - `ratio` (0.1, update over weight): MindInsight's weight_change_too_large; cs231n recommends 0.001. Where the
      gradients died, half of it is enough.
    - `least_ratio` (0.02, update over weight): smaller steps do not make alpha a witness. Calibrated on converged
      trainings, whose alpha is noise.
    - `rise` (1.2, times the first loss; 2 where the loss of a model that knows nothing is not known): calibrated, the
      blocks of healthy trainings stayed below 1.02 and 1.4.
    - `overwritten` (1, update over weight): nothing is left by definition. The largest single step of healthy networks
      was 0.5 in calibration.
    - `restless` (0.06, update over weight, the 90th percentile over the probes): calibrated. Of 210 healthy
      variants 4 had more, up to 0.09, and all of those had learned.

    ## References
    - Mahsereci and Hennig 2017; Schneider et al. 2021, Cockpit, section 2.1 and figure 5 on alpha.
    - Karpathy, CS231n: ratio of updates to weights. Cohen et al. 2021 on the edge of stability.
    """

    code: ClassVar[str] = "STP001"
    name: ClassVar[str] = "learning-rate-too-large"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "lr")}
    explains: ClassVar[tuple[str, ...]] = ("NUM001", "GRD001", "GRD002", "LOS001", "ACT001", "ACT002", "CUR001")

    alpha: float = 1.0
    """Position on the parabola: 0 its minimum, 1 its mirror point."""
    ratio: float = 0.1
    """Update norm over parameter norm."""
    least_ratio: float = 0.02
    """Update norm over parameter norm."""
    rise: float = 1.2
    """Times the first loss."""
    overwritten: float = 1.0
    """Update norm over parameter norm."""
    restless: float = 0.06
    """Update norm over parameter norm."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if not (run.has("layers", "update_norm") or run.has("steps", "alpha")):
            raise NotApplicable("neither updates nor alpha were recorded: the loss alone names no cause")
        if wide_start(run) is not None:
            raise NotApplicable(
                "the outputs were far too large before the first update, which must be mended first (GRD001, UPD004)"
            )
        by_steps = self._by_steps(run)
        try:
            found = self._harmful(run) or by_steps
        except NotApplicable:
            if by_steps is None:
                raise
            found = by_steps
        if found is not None:
            yield found

    def _harmful(self, run: Run) -> Finding | None:
        """What two witnesses tell."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the loss does not have to fall")
        progress, phase = measured(run), phases(run)
        if progress is None or phase is None:
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")
        if phase.full_from is None and _swept(run):
            raise NotApplicable(
                "the learning rate rose ten-thousandfold until the end: a range test is meant to diverge"
            )
        damage = harm(run, progress, phase, self.rise)
        if damage is None or not is_early(damage.onset, phase, run.step_count):
            return None
        steps = reach(run, damage.onset - 100, damage.onset + 50)
        return self._finding(progress, damage, steps, phase) if self._witnessed(steps, damage) else None

    def _by_steps(self, run: Run) -> Finding | None:
        """What the steps tell alone."""
        found = overwriting(run, self.overwritten) or restless(run, self.restless)
        if found is None:
            return None
        return Finding(
            code=self.code,
            name=self.name,
            severity=found.severity,
            message=found.told,
            confidence=found.confidence,
            first_step=found.first,
            last_step=found.last,
            value=found.value,
            threshold=found.limit,
            evidence=Evidence(
                (f"{plural(found.beyond, 'probe')} of {count(found.probes)} show it.",), (found.against,)
            ),
            causes=_CAUSES,
            advice=(_LOWER, _WARM_UP),
            chart=ChartRef("layers", "update_ratio", reference=found.limit),
        )

    def _witnessed(self, steps: Reach, damage: Harm) -> bool:
        """Whether the steps were too large too."""
        if steps.uphill > 0.5:
            return False
        limit = self.ratio / 2 if damage.kind == "killed" else self.ratio
        if steps.ratio is not None and steps.ratio > limit:
            return True
        return self._beyond(steps) and (steps.ratio is None or steps.ratio > self.least_ratio)

    def _beyond(self, steps: Reach) -> bool:
        return steps.alpha_p90 is not None and steps.alpha_p90 > self.alpha

    def _finding(self, progress: Progress, damage: Harm, steps: Reach, phase: Phases) -> Finding:
        far = steps.ratio is not None and steps.ratio > self.ratio
        by_alpha = self._beyond(steps) and not far
        confidence = 0.95 if self._beyond(steps) and far else 0.85
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning" if damage.recovered else self.severity,
            message=f"With a learning rate of {number(phase.peak)} {_stride(steps, by_alpha=by_alpha)}, and"
            f" {_damage(damage, progress)}.",
            confidence=confidence - 0.15 * damage.recovered,
            first_step=damage.onset,
            last_step=damage.last_step,
            value=steps.alpha_p90 if by_alpha else steps.ratio,
            threshold=self.alpha if by_alpha else self.ratio,
            evidence=self._evidence(damage, steps, phase),
            causes=_CAUSES,
            advice=(
                _LOWER,
                _WARM_UP,
                "Remember that momentum m multiplies the step by 1/(1-m).",
                "Scale the inputs; clip the gradient norm.",
            ),
            chart=ChartRef("steps", "alpha", reference=self.alpha)
            if by_alpha
            else ChartRef("layers", "update_ratio", reference=self.ratio),
        )

    def _evidence(self, damage: Harm, steps: Reach, phase: Phases) -> Evidence:
        limit = f"up to {number(damage.limit)} would have been harmless"
        supporting = [
            f"The loss began at {number(damage.start)} and reached {number(damage.level)} ({damage.kind}; {limit})."
        ]
        opposing: list[str] = []
        if steps.alpha_p90 is not None:
            told = f"is {number(steps.alpha_p90, 3)} ({count(steps.alphas)} steps)"
            witness = supporting if self._beyond(steps) else opposing
            witness.append(f"The 90th percentile of alpha around step {count(damage.onset)} {told}.")
        else:
            opposing.append("Alpha was not recorded there, or at fewer than five steps.")
        if steps.ratio is not None and steps.ratio_step is not None:
            witness = supporting if steps.ratio > self.ratio else opposing
            witness.append(
                f"At step {count(steps.ratio_step)} the median layer moved by {percent(steps.ratio)} of its norm."
            )
        if phase.warmed_up:
            opposing.append("The learning rate was warmed up.")
        if damage.recovered:
            opposing.append("The run recovered.")
        return Evidence(tuple(supporting), tuple(opposing))


_CAUSES = (
    "Learning rate too large",
    "Momentum not taken into account when the rate was chosen",
    "No warm-up",
    "Inputs or targets not scaled",
)


_LOWER = "Divide the learning rate by 3 until the loss of the first 100 steps falls."
_WARM_UP = "Warm the rate up over the first hundreds of steps."


def _swept(run: Run) -> bool:
    """Whether the rate rose ten-thousandfold over the run."""
    rates = run.frame("steps", "lr_max").filter(pl.col("lr_max") > 0)["lr_max"]
    return len(rates) > 0 and float(rates[-1]) > 1e4 * float(rates[0])


def _stride(steps: Reach, *, by_alpha: bool) -> str:
    """How far the steps went, in words."""
    if by_alpha or steps.ratio is None:
        return f"every tenth step ended beyond alpha {number(steps.alpha_p90, 3)}"
    return f"the median layer moved by {percent(steps.ratio)} of its norm in one step ({count(steps.ratio_step)})"


def _damage(damage: Harm, progress: Progress) -> str:
    """What became of the loss, in words."""
    start, level, end = number(damage.start), number(damage.level), number(progress.end.value)
    onset = f"step {count(damage.onset)}"
    told = {
        "above its start": f"the loss rose from {start} to {level} from {onset} on",
        "non-finite": f"the loss or a gradient is not finite from {onset} on",
        "thrown off": f"the loss jumped from {start} to {level} and ended at {end}, no better than knowing nothing",
        "killed": f"the gradients of the first layers died around {onset}, and the loss stayed at {end}",
        "lost again": f"the loss lost again what it had learned, from {onset} on",
    }[damage.kind]
    return f"{told}, but ended at {end}" if damage.recovered else told
