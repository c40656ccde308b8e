"""STP005: gradients that are clipped at every step, so tightly that the training hardly gets on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..depth import update_ratios
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..pace import Clipping, clipping, did_well, fallen, half_time, heedless, sound_norms, still_falling, straightness
from ..progress import Progress, adversarial, measured
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class ClippingTooTight(Detector):
    """Nearly every gradient is clipped to a small part of its size, and the training hardly gets on for it.

    ## What it does
    Compares the gradient norm after the backward pass with the norm at the optimizer's step. Clipping is too tight if
    nine steps of ten lose nine tenths of their gradient or more, and two more witnesses agree. *The loss:* it has
    fallen by less than a fifth, or took a fifth of the run and more to make half of its way. *The steps:* they all lead
    straight ahead (the parameters ended at least half as far from their start as the lengths of the updates add up to),
    as steps do that are too short. If next to nothing is left of a gradient, that is enough. Clipping at every step is
    no fault where the training gets on: that is gradient descent with normalised steps. Nor is it one with Adam and its
    like, which divide gradients by their size.

    ## Why it matters
    Every step has the length of the threshold times the learning rate, however steep the loss is.

    ## What to try
    Clip at the 90th percentile of the gradient norms, so that one step of ten is clipped, or leave clipping out.

    ## Options
    - `share` (0.9, of the steps): a guess. The playbook of Google Research calls half of the steps too many.
    - `factor` (0.1, clipped over unclipped norm): calibrated, healthy trainings that clipped every step had 0.25.
    - `extreme` (0.01, the same, where it needs no other witness): calibrated, none of the healthy trainings by SGD was
      near it.
    - `straightness` (0.5, distance over sum of updates): calibrated, clipped too tightly they had 0.69 to 1.05,
      healthy trainings that clipped every step 0.37.
    - `late` (0.2, share of the run): calibrated. Trainings that got on made half of their way within 0.08.
    - `fall` (0.2, share of the first loss): as in STP002.
    - `steps` (100 steps): fewer prove nothing.

    ## References
    - Pascanu et al. 2013. Godbole et al. 2023, Deep learning tuning playbook, on the threshold.
    """

    code: ClassVar[str] = "STP005"
    name: ClassVar[str] = "clipping-too-tight"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "grad_norm")}
    explains: ClassVar[tuple[str, ...]] = ("STP002", "LOS001")

    share: float = 0.9
    """Share of the steps."""
    factor: float = 0.1
    """Norm after clipping over norm before."""
    extreme: float = 0.01
    """Norm after clipping over norm before."""
    straightness: float = 0.5
    """Distance from the start over the sum of the updates."""
    late: float = 0.2
    """Share of the run."""
    fall: float = 0.2
    """Share of the first loss."""
    steps: int = 100
    """Steps with a finite gradient."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        taken = sound_norms(run).height
        if taken < self.steps:
            raise NotApplicable(f"{taken} steps with a finite gradient are too few; {self.steps} are needed")
        clipped = clipping(run)
        if clipped is None or clipped.share < self.share or clipped.factor > self.factor or heedless(run):
            return
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: whether they get on does not show in the loss")
        progress = measured(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")
        straight, half = straightness(run), half_time(run, progress)
        slow = fallen(progress) < self.fall or half is None or half >= self.late
        witnessed = slow and (straight is None or straight >= self.straightness)
        if (witnessed or clipped.factor <= self.extreme) and not did_well(progress):
            yield self._finding(run, progress, clipped, straight, half)

    def _finding(
        self, run: Run, progress: Progress, clipped: Clipping, straight: float | None, half: float | None
    ) -> Finding:
        norms = sound_norms(run)
        usual, kept = scalar(norms["grad_norm"].median()), scalar(norms["grad_norm_clipped"].median())
        tenth = scalar(norms["grad_norm"].quantile(0.9))
        down = fallen(progress)
        start, end = number(progress.start), number(progress.end.value)
        outcome = f"the loss is no lower than at the start ({start}, now {end})"
        if down > 0:
            outcome = f"the loss went from {start} to {end} only"
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if down < 0.5 else "warning",
            message=f"{percent(clipped.share)} of the steps are clipped, to {percent(clipped.factor)} of their gradient"
            f" (from a norm of {number(usual)} to {number(kept)}), and in {count(run.step_count)} steps {outcome}.",
            confidence=0.97 if straight is not None and down < 0.5 else 0.8,
            first_step=run.first_step,
            last_step=run.last_step,
            value=clipped.factor,
            threshold=self.factor,
            evidence=self._evidence(run, progress, straight, half),
            causes=(
                "The threshold of the clipping lies far below the norms of the gradients",
                "Values are clipped one by one where the norm was meant, or the reverse",
                "A loss that is a sum over the batch, with the threshold of a mean",
            ),
            advice=(
                f"Clip at the 90th percentile of the gradient norms ({number(tenth)}), or not at all.",
                "If the threshold must stay, multiply the learning rate by what clipping takes.",
            ),
            chart=ChartRef("steps", "grad_norm", reference=kept),
        )

    def _evidence(self, run: Run, progress: Progress, straight: float | None, half: float | None) -> Evidence:
        supporting: list[str] = []
        opposing: list[str] = []
        if straight is not None:
            supporting.append(
                f"The steps led straight ahead: the distance is {percent(straight)} of the length of all steps."
            )
        else:
            opposing.append("Where the steps led was not recorded.")
        if half is not None and half >= self.late:
            supporting.append(f"Half of the fall of the loss took {percent(half)} of the run.")
        if still_falling(run):
            supporting.append("The loss was still falling at the end.")
        ratios = update_ratios(run)
        if not ratios.is_empty():
            largest = scalar(ratios["largest"].median())
            told = f"The layer that moves most moves by {number(largest, 2)} of its norm a step."
            (supporting if largest < 1e-3 else opposing).append(told)
        return Evidence(tuple(supporting), tuple(opposing))
