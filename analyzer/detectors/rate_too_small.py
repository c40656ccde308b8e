"""STP002: steps that are too small to get anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl

from ..depth import of_weights, update_ratios
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..pace import clipping, fallen, last_quarters, still_falling, straightness
from ..phases import Phases, phases
from ..progress import Progress, adversarial, given_probabilities, measured, uninformed
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class RateTooSmall(Detector):
    """The learning rate is too small: no layer moves, and the loss has hardly fallen.

    ## What it does
    Asks for two witnesses, over the steps at full learning rate. *The steps:* in every layer the median update is below
    1e-3 of the weights, and none ever was large. What is more, they all pointed the same way (the parameters ended at
    least half as far from their start as the lengths of the updates add up to), or could not have moved any layer by a
    fifth in all. *The loss:* it has fallen by less than a fifth, and is not at a floor: the model knows little more
    than one that never saw its input. Small updates of a training that has converged are no finding, nor those of the
    first layers alone, which are vanishing gradients. Worth a note are steps below 2e-3 that lead straight on while
    much is left to learn or the loss, whose scale is not known, falls on to the end, and, where the loss does not tell
    (adversarial, negative), an optimizer whose layers hardly move. Alpha is told as evidence only: a step that hardly
    moves has an alpha of -1 without noise, but of -1/(1 + noise scale / batch size) with it, so that no threshold
    separates.

    ## Why it matters
    The run costs what a good one costs, and gets nowhere. It looks like a model that cannot learn.

    ## What to try
    Multiply the rate by 10 until the loss falls within the first hundred steps, by 3 from there. Look for a schedule
    that starts or ends too low, for clipping of nearly every step, for a wrong parameter group.

    ## Options
    - `ratio` (0.001, update over weight): what cs231n recommends; MindInsight watches 1e-4.
    - `straightness` (0.5, distance over sum of updates): calibrated. Rates that were too small have 0.56 to 1.1, with
      batches of 8 0.3; labels that say nothing 0.1 to 0.5, converged trainings less than 0.1.
    - `reach` (0.2, sum of updates over weight): less than that cannot have got far. Healthy trainings moved some layer
      by 0.15 to 1 within 500 steps, and their loss fell.
    - `peak_ratio` (0.003, update over weight): larger steps at any time are no finding, as they may kill units.
    - `fall` (0.2, share of the first loss): a larger fall is no finding. A guess; a tenfold rate often falls by more.
    - `steps` (100 steps at full rate): fewer prove nothing.
    - `standing` (0.05, sum of updates over weight): what is worth a note where the loss does not tell.
    - `straight_on` (0.7, distance over sum of updates) and `left` (0.5, share learned): the same where the loss falls,
      but slowly. Calibrated, healthy trainings that had learned less went at most half as far as their steps are long.

    ## References
    - Karpathy, CS231n: ratio of updates to weights, around 1e-3. Schneider et al. 2021, Cockpit, figure 5.
    """

    code: ClassVar[str] = "STP002"
    name: ClassVar[str] = "learning-rate-too-small"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "lr"), "layers": ("update_norm", "param_norm")}
    explains: ClassVar[tuple[str, ...]] = ("LOS001",)

    ratio: float = 1e-3
    """Update norm over parameter norm."""
    straightness: float = 0.5
    """Distance from the start over the sum of the updates."""
    reach: float = 0.2
    """Sum of the updates over parameter norm."""
    peak_ratio: float = 3e-3
    """Update norm over parameter norm."""
    fall: float = 0.2
    """Share of the first loss."""
    steps: int = 100
    """Steps at full learning rate."""
    standing: float = 0.05
    """Sum of the updates over parameter norm."""
    straight_on: float = 0.7
    """Distance from the start over the sum of the updates."""
    left: float = 0.5
    """Share of what there was to learn."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        progress, phase = measured(run), phases(run)
        if adversarial(run) or progress is None or phase is None:
            yield from self._standing(run)
            return
        first, last = phase.full()
        if phase.full_from is None or last - first + 1 < self.steps:
            raise NotApplicable(f"fewer than {self.steps} steps were taken at the full learning rate")
        if given_probabilities(run):
            raise NotApplicable(
                "the loss is given probabilities where it expects logits, which makes all gradients small"
            )
        ratios = update_ratios(run)
        inside = ratios.filter(pl.col("step").is_between(first, last))
        if inside.is_empty():
            raise NotApplicable("no update of a weight tensor was recorded at the full learning rate")
        if self._tiny(inside, ratios, phase) and self._aimed(run, inside) and self._fruitless(run, progress):
            yield self._finding(run, progress, phase, inside)
        elif self._slow(run, inside, progress):
            yield replace(self._finding(run, progress, phase, inside), severity="note", confidence=0.6)

    def _slow(self, run: Run, inside: pl.DataFrame, progress: Progress) -> bool:
        """Whether small steps lead straight on, with much left to learn: larger ones would do."""
        straight = straightness(run)
        small = scalar(inside["largest"].median()) < 2 * self.ratio
        if not small or straight is None or straight <= self.straight_on or progress.learned <= 0:
            return False
        return progress.learned < self.left or (progress.zero is None and still_falling(run))

    def _standing(self, run: Run) -> Iterator[Finding]:
        """Where the loss does not tell: optimizers whose steps could not have got anywhere. Raises if there is none."""
        found = False
        for position in sorted({group.optimizer for group in run.groups}):
            ratios = update_ratios(run, position)
            largest = scalar(ratios["largest"].median()) if ratios.height >= 10 else 0.0
            if 0 < largest * run.step_count < self.standing:
                found = True
                yield self._unmoved(run, position, largest)
        if not found:
            raise NotApplicable("several optimizers take turns, or the loss takes negative values: it need not fall")

    def _unmoved(self, run: Run, optimizer: int, largest: float) -> Finding:
        group = next(group for group in run.groups if group.optimizer == optimizer)
        moved = f"moves by {number(largest, 2)} of its norm a step"
        return Finding(
            code=self.code,
            name=self.name,
            severity="note",
            message=f"Of the layers of {group.type} ({number(group.lr)}) the one that moves most {moved}: in all"
            f" {count(run.step_count)} steps it could not get further than {percent(largest * run.step_count)}.",
            confidence=0.6,
            first_step=run.first_step,
            last_step=run.last_step,
            value=largest * run.step_count,
            threshold=self.standing,
            evidence=Evidence((f"The steps are as small throughout ({moved}).",), ("The loss does not tell.",)),
            causes=_CAUSES,
            advice=("Multiply the learning rate by 10 until the layers move by about a thousandth a step.",),
            chart=ChartRef("layers", "update_ratio", reference=self.ratio),
        )

    def _tiny(self, inside: pl.DataFrame, ratios: pl.DataFrame, phase: Phases) -> bool:
        """Whether the steps are small, but not because there is no gradient at all."""
        largest, peak = scalar(inside["largest"].median()), scalar(ratios["median"].max())
        return largest < self.ratio and peak < self.peak_ratio and (largest > 0 or phase.zero_share > 0.9)

    def _aimed(self, run: Run, inside: pl.DataFrame) -> bool:
        """Whether the steps pointed the same way, or could not have got anywhere wherever they pointed."""
        share = straightness(run)
        within = scalar(inside["largest"].median()) * run.step_count < self.reach
        return within or share is None or share >= self.straightness

    def _fruitless(self, run: Run, progress: Progress) -> bool:
        """Whether the loss has hardly fallen though there is much to learn. Raises NotApplicable if that is unknown."""
        short = fallen(progress) < self.fall
        knows_nothing = uninformed(run, progress, self.fall)
        if knows_nothing is None and short:
            raise NotApplicable(
                "the steps are tiny and the loss has hardly fallen, but how much there is to learn is not known:"
                " it is no cross-entropy, and predictions and targets were not seen"
            )
        return short and knows_nothing is True

    def _finding(self, run: Run, progress: Progress, phase: Phases, inside: pl.DataFrame) -> Finding:
        largest = scalar(inside["largest"].median())
        down = fallen(progress)
        pace = "none at all" if largest == 0 else f"{number(largest, 2)} of its norm a step"
        factor = 10 ** (min(5, max(1, round(-3 - math.log10(largest)))) if largest > 0 else 1)
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if down < 0.05 else "warning",
            message=f"With a learning rate of {number(phase.peak)} the layer that moves most moves by {pace}, and after"
            f" {count(run.step_count)} steps the loss is {number(progress.end.value)}, {_below(down)} its start.",
            confidence=0.95 if down < 0.05 else 0.75,
            first_step=phase.full()[0],
            last_step=phase.full()[1],
            tensors=(),
            value=largest,
            threshold=self.ratio,
            evidence=_evidence(run, progress),
            causes=(*("The learning rate is zero",) * (phase.zero_share > 0.9), *_CAUSES),
            advice=(
                f"Multiply the learning rate by {count(factor)}, then by 3 while the first hundred steps get better.",
                "Check the rates that were recorded against the schedule that was meant.",
            ),
            chart=ChartRef("layers", "update_ratio", reference=self.ratio),
        )


_CAUSES = (
    "Learning rate too small",
    "A schedule that starts, or stays, too low",
    "Clipping so tight that it takes most of every step",
    "The parameters are in a group with another rate",
)


def _below(fallen: float) -> str:
    return f"{percent(fallen)} below" if fallen > 0 else "no lower than"


def _evidence(run: Run, progress: Progress) -> Evidence:
    supporting: list[str] = []
    opposing: list[str] = []
    travelled = _travelled(run)
    if travelled is not None:
        supporting.append(f"No weight tensor ended more than {percent(travelled)} of its norm from where it began.")
    if (share := straightness(run)) is not None and share >= 0.5:
        supporting.append(f"The steps led straight ahead: the distance is {percent(share)} of the length of all steps.")
    supporting += _still_falling(run)
    alphas = run.frame("steps", "alpha")["alpha"].drop_nulls()
    if len(alphas) >= 10:
        middle = scalar(alphas.median())
        told = f"The median of alpha is {number(middle, 3)} ({count(len(alphas))} steps)."
        (supporting if middle < -0.5 else opposing).append(told)
    if (clipped := clipping(run)) is not None and clipped.share > 0.5 and clipped.factor < 0.1:
        told = f"{percent(clipped.share)} of the steps were clipped, to {percent(clipped.factor)} of their size"
        opposing.append(f"{told}: the rate may be innocent.")
    if progress.learned > 0.05:
        opposing.append(f"The loss has fallen below {number(progress.reference)} by {percent(progress.learned)}.")
    return Evidence(tuple(supporting), tuple(opposing))


def _still_falling(run: Run) -> list[str]:
    """A sentence if the loss of the last quarter is significantly lower than that of the quarter before."""
    before, end = last_quarters(run)
    told = f"The loss was still falling at the end, from {number(before.value)} to {number(end.value)} in a quarter."
    return [told] if still_falling(run) else []


def _travelled(run: Run) -> float | None:
    """The largest distance from the start among the weight tensors, relative to their norms, at the last probe."""
    last = of_weights(run, "distance", "param_norm").group_by("tensor").agg(pl.all().last())
    share = last.filter(pl.col("param_norm") > 0).select(pl.col("distance") / pl.col("param_norm")).to_series()
    share = share.drop_nulls()
    return scalar(share.max()) if len(share) else None
