"""STP003: a learning rate that decayed to nothing while the loss was still falling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import batch_mean
from ..pace import did_well, fallen, straightness
from ..progress import Progress, adversarial, losses, measured
from ..run import Run
from ..schedule import Decay, decay
from ..wording import count, number, percent, step_range
from .base import Detector


@dataclass(frozen=True)
class RateDecayed(Detector):
    """The learning rate decayed to next to nothing while the loss was still falling, and the rest of the run is lost.

    ## What it does
    Finds the step from which on the rate stays below 7 % of its peak. That is a finding if a quarter of the run or more
    lies behind it, if the loss was still falling significantly right before it (over a stage of the schedule, or over
    the last quarter of what the rates add up to), at a pace that would have led much further, got on more slowly since,
    and if much was left to learn. A cosine or a linear decay to zero that ends with the run spends a sixth of it there
    at most. If it is half of the run or more, it is worth a warning if the scatter of the losses does not show that
    they had settled. A loss that had settled before the rate fell, and a training that learned nearly all there was,
    are no findings.

    ## Why it matters
    Steps of nearly no length change nothing: the run costs as much as one that goes on learning. Its loss looks
    converged, and is not.

    ## What to try
    Stretch the decay over the whole run; decay to a tenth instead of to nothing; lower the rate when the loss has
    settled (ReduceLROnPlateau) instead of by the clock.

    ## Options
    - `share` (0.07, of the peak): below a tenth, at which a stage of step decay often stays. A cosine passes it late.
    - `rest` (0.25, share of the run): a guess; a cosine has 0.17, three equal stages of tenfold decay 0.33.
    - `steps` (50 steps at such a rate): fewer are no waste.
    - `missed` (0.2, share of the loss): what the rest of the run would have brought at the pace right before and the
      mean rate up to there. Calibrated, schedules that were too short missed 0.26 and more.
    - `errors` (3 standard errors of the fall right before).
    - `learned` (0.9, share of what there was to learn): above it the decay came in time.
    - `idle` (0.5, share of the run): calibrated, healthy trainings had up to 0.36, schedules that were too short 0.53
      and more. `most` (0.8, the same, whatever the losses say): no schedule means it.

    ## References
    - Full Stack Deep Learning, Troubleshooting: flat too early. Loshchilov and Hutter 2017 on cosine decay.
    """

    code: ClassVar[str] = "STP003"
    name: ClassVar[str] = "learning-rate-decayed"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "lr")}
    explains: ClassVar[tuple[str, ...]] = ("STP002", "LOS001")

    share: float = 0.07
    """Share of the peak rate."""
    rest: float = 0.25
    """Share of the run."""
    steps: int = 50
    """Steps."""
    missed: float = 0.2
    """Share of the loss."""
    errors: float = 3.0
    """Standard errors."""
    learned: float = 0.9
    """Share of what there was to learn."""
    idle: float = 0.5
    """Share of the run."""
    most: float = 0.8
    """Share of the run."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the loss does not have to fall")
        progress = measured(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")
        found = decay(run, self.share)
        if found is None or found.rest < self.rest or found.steps < self.steps or self._done(progress):
            return
        if self._was_falling(found) and self._slower(found, progress):
            yield self._finding(run, progress, found)
        elif found.rest >= self.most or (found.rest >= self.idle and self._in_motion(run, progress, found)):
            yield self._idle(run, progress, found)

    def _was_falling(self, found: Decay) -> bool:
        fall = found.fall
        return fall.value > self.errors * fall.error and found.missed >= self.missed * found.level

    def _in_motion(self, run: Run, progress: Progress, found: Decay) -> bool:
        """Whether the loss fell at all, and had not settled before, as far as its scatter tells."""
        fell = batch_mean(losses(run)["loss"].head(_BEGINNING)).exceeds(progress.end, self.errors)
        return fell and found.missed_at_most >= self.missed * found.level

    def _slower(self, found: Decay, progress: Progress) -> bool:
        """Whether the loss fell at less than half of its pace once the rate had fallen."""
        first, last = found.window
        before = found.fall.value / max(1, last - first)
        return (found.level - progress.end.value) / found.steps < before / 2

    def _done(self, progress: Progress) -> bool:
        share = progress.learned if progress.zero else fallen(progress)
        return did_well(progress) or share >= self.learned

    def _idle(self, run: Run, progress: Progress, found: Decay) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning",
            message=f"From step {count(found.step)} on the learning rate is below {percent(self.share)} of its peak"
            f" ({number(found.peak)}), at the end {number(found.final)}: {percent(found.rest)} of the run.",
            confidence=0.7,
            first_step=found.step,
            last_step=run.last_step,
            value=found.rest,
            threshold=self.idle,
            evidence=Evidence(
                (f"The loss ended at {number(progress.end.value)}, which leaves something to learn.",),
                ("The loss had settled, or fell too slowly to tell, before the rate fell.",),
            ),
            causes=_CAUSES,
            advice=_ADVICE,
            chart=ChartRef("steps", "lr", reference=self.share * found.peak),
        )

    def _finding(self, run: Run, progress: Progress, found: Decay) -> Finding:
        share = progress.learned if progress.zero else fallen(progress)
        first, last = found.window
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if share < 0.5 else "warning",
            message=f"From step {count(found.step)} on the learning rate is below {percent(self.share)} of its peak"
            f" ({number(found.peak)}), at the end {number(found.final)}: {percent(found.rest)} of the run. The loss was"
            f" still falling before, and stayed at {number(progress.end.value)}.",
            confidence=0.9,
            first_step=found.step,
            last_step=run.last_step,
            value=found.rest,
            threshold=self.rest,
            evidence=_evidence(run, progress, found),
            causes=_CAUSES,
            advice=(
                _ADVICE[0],
                f"Lower the rate once the loss has settled; in {step_range(first, last)} it had not.",
                _ADVICE[1],
            ),
            chart=ChartRef("steps", "lr", reference=self.share * found.peak),
        )


_BEGINNING = 20
"""Steps of which the mean loss is the level at the start."""
_CAUSES = (
    "The schedule is shorter than the training",
    "A decay factor that is too small, or applied too often",
    "A scheduler that is stepped once a batch where once an epoch was meant",
)
_ADVICE = (
    "Stretch the schedule over the whole run, or end it at a tenth of the peak.",
    "Print the rate at the start of each epoch, and compare it with the schedule that was meant.",
)


def _evidence(run: Run, progress: Progress, found: Decay) -> Evidence:
    first, last = found.window
    fall, error = number(found.fall.value), number(found.fall.error, 2)
    before = f"In {step_range(first, last)} the loss fell by {fall} ± {error}, to {number(found.level)}"
    supporting = [f"{before}; in the {count(found.steps)} steps since to {number(progress.end.value)}."]
    opposing: list[str] = []
    if progress.zero:
        told = f"Of what there was to learn, {percent(max(0.0, progress.learned))} was learned."
        (supporting if progress.learned < 0.5 else opposing).append(told)
    else:
        opposing.append("How much there was to learn is not known.")
    if (straight := straightness(run)) is not None and straight >= 0.5:
        supporting.append(f"The steps led straight ahead: {percent(straight)} of their length was distance.")
    return Evidence(tuple(supporting), tuple(opposing))
