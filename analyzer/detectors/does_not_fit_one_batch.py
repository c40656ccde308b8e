"""LOS006: a model that does not fit one batch, repeated over and over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..label_fit import all_recognised
from ..overshoot import broken
from ..pace import last_quarters, still_falling
from ..progress import Progress, constant_input, given_probabilities, losses, measured, uninformed
from ..run import Run
from ..swings import swings
from ..wording import count, number, percent
from .base import Detector

Course = Literal["explodes", "goes up", "oscillates", "falls too slowly", "goes flat"]


@dataclass(frozen=True)
class DoesNotFitOneBatch(Detector):
    """A run that trains on one batch, over and over, does not bring its loss to about zero.

    ## What it does
    Judges only runs that were recorded with `mode="overfit-batch"`. Their mean loss of the last tenth must be below a
    twentieth of that of a model that knows nothing (of the first loss, where that is not known). If it is not, the
    course of the loss tells what to look for: it explodes, goes up, oscillates, goes flat, or falls too slowly. If all
    samples are predicted as labelled, it fits, whatever the floor of the loss.

    ## Why it matters
    A network that cannot learn thirty samples by heart has a bug, and no amount of data will hide it. This is the
    cheapest test there is.

    ## What to try
    Goes up: a flipped sign, a rate that is too large, softmax over the wrong dimension. Explodes: numerical trouble, a
    rate that is too large, inputs that are not scaled. Oscillates: a rate that is too large, labels that change from
    step to step. Goes flat: a rate that is too small, gradients that do not reach the whole model, regularisation, the
    wrong input to the loss, samples that are alike with labels that differ.

    ## Options
    - `fitted` (0.05, share of the loss of a model that knows nothing): calibrated, runs that fitted ended below 0.003.
    - `rise` (1.1, times the first loss): more counts as going up.
    - `pace` (0.1, share of the loss in a quarter of the run): what falls faster is only too slow.
    - `steps` (50 steps): fewer prove nothing.

    ## References
    - Karpathy, A recipe for training neural networks 2019. Full Stack Deep Learning, Troubleshooting.
    """

    code: ClassVar[str] = "LOS006"
    name: ClassVar[str] = "does-not-fit-one-batch"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "LOS002", "LOS004", "LOS005")

    fitted: float = 0.05
    """Share of the loss of a model that knows nothing."""
    rise: float = 1.1
    """Times the first loss."""
    pace: float = 0.1
    """Share of the loss in a quarter of the run."""
    steps: int = 50
    """Steps with a finite loss."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if run.manifest.mode != "overfit-batch":
            raise NotApplicable('the run does not train on one repeated batch (mode="overfit-batch")')
        progress, series = measured(run), losses(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values: zero is not its floor")
        burst = broken(run)
        if series.height < self.steps and burst is None:
            raise NotApplicable(f"{series.height} steps with a finite loss are too few; {self.steps} are needed")
        limit = self.fitted * progress.reference
        if all_recognised(run):  # the floor of bounded logits, or of smoothed labels, is not zero
            return
        if progress.end.value > limit or (burst is not None and series["loss"].tail(5).max() > limit):  # type: ignore[operator]
            course: Course = "explodes" if burst is not None else self._course(run, progress)
            yield self._finding(run, progress, course, limit)

    def _course(self, run: Run, progress: Progress) -> Course:
        """What the loss does instead of going to zero."""
        if progress.end.value - 3 * progress.end.error > self.rise * progress.start:
            return "goes up"
        before, end = last_quarters(run)
        if still_falling(run) and end.value < (1 - self.pace) * before.value:
            return "falls too slowly"
        found = swings(losses(run), self.fitted * progress.reference)
        return "oscillates" if found is not None and found.rises >= 3 else "goes flat"

    def _finding(self, run: Run, progress: Progress, course: Course, limit: float) -> Finding:
        end = number(progress.end.value)
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning" if course == "falls too slowly" else self.severity,
            message=f"Trained on one batch for {count(run.step_count)} steps, the loss {course}: from"
            f" {number(progress.start)} to {end}, where about zero ({number(limit)} at most) can be had.",
            confidence=0.96,
            first_step=run.first_step,
            last_step=run.last_step,
            value=progress.end.value / progress.reference if progress.reference > 0 else None,
            threshold=self.fitted,
            evidence=_evidence(run, progress),
            causes=(*_suspected(run), *_CAUSES[course]),
            advice=(
                "Print the batch twice: inputs and labels must be the same at every step.",
                "Turn off dropout, augmentation and weight decay for this test.",
                "Compare the shapes of predictions and targets, and what the loss expects.",
                "Try learning rates ten times larger and ten times smaller.",
            ),
            chart=ChartRef("steps", "loss", reference=limit),
        )


_CAUSES: dict[Course, tuple[str, ...]] = {
    "explodes": (
        "Numerical trouble: a division by zero, the logarithm or root of zero, an overflow of exp or of half precision",
        "A learning rate that is too large",
        "Inputs or targets that are not scaled; an initialisation that is too wide",
    ),
    "goes up": (
        "A flipped sign in the loss or in the gradient",
        "A learning rate that is too large",
        "Softmax over the wrong dimension",
    ),
    "oscillates": (
        "A learning rate that is too large",
        "Labels that are drawn or shuffled anew at every step",
        "Augmentation that spoils the samples",
    ),
    "goes flat": (
        "Samples that are alike but have different labels, or labels that are drawn anew at every step",
        "Gradients that do not reach the whole model: detached, frozen, not in the optimizer, dead units",
        "The wrong input to the loss: softmax twice, shapes that broadcast",
        "A learning rate that is too small",
        "Too much regularisation",
    ),
    "falls too slowly": ("A learning rate that is too small", "Too few steps", "Too much regularisation"),
}


def _suspected(run: Run) -> tuple[str, ...]:
    """Causes for which the figures speak."""
    dropout = any(module.type.startswith(("Dropout", "AlphaDropout")) for module in run.manifest.modules)
    decay = any((group.options.get("weight_decay") or 0) >= 0.01 for group in run.groups)
    return (
        *("The inputs are all the same",) * constant_input(run),
        *("Softmax before a loss that applies its own",) * given_probabilities(run),
        *("Dropout is on",) * dropout,
        *("Weight decay holds the weights back",) * decay,
    )


def _evidence(run: Run, progress: Progress) -> Evidence:
    supporting = [f"The mean of the last tenth is {number(progress.end.value)} ± {number(progress.end.error, 2)}."]
    opposing: list[str] = []
    if uninformed(run, progress, 0.05):
        supporting.append("The model knows no more than one that never saw its input.")
    elif progress.learned > 0:
        opposing.append(f"Of what there was to learn, {percent(progress.learned)} was learned.")
    if still_falling(run):
        opposing.append("The loss was still falling at the end.")
    return Evidence(tuple(supporting), tuple(opposing))
