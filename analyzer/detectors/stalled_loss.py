"""LOS001: a loss that does not fall though there is much to learn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import Mean, batch_mean
from ..pace import did_well, last_quarters, still_falling
from ..phases import phases
from ..progress import (
    Progress,
    ZeroInformation,
    adversarial,
    given_probabilities,
    losses,
    measured,
    prediction_spread,
    uninformed,
)
from ..reach import Bound, out_of_reach
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class StalledLoss(Detector):
    """The loss stays where a model that knows nothing of its input would be.

    ## What it does
    Takes the second half of the steps at full learning rate (no warm-up, no decay below a tenth) and compares the mean
    loss of its two halves. The loss is stalled if even a fall two standard errors larger than the one seen would be
    less than 1 %, or if it did not fall significantly and is significantly above that of a model that knows nothing.
    That is a finding only if it is not a floor: for a classification within 5 % of the entropy of the class frequencies
    (ln C if they are equal) or above it, for a regression if the predictions are nearly the same for all samples. A
    loss that fell before it went flat, as it does when a training converges, is none.
    A regression is stalled, too, if its predictions press against a bound of the output layer (0 of a ReLU, 0 and 1 of
    a sigmoid, -1 and 1 of a tanh) beyond which targets lie, and its loss does not fall any more: that is a warning.

    ## Why it matters
    Time spent on such a run is lost. It is a symptom: other rules name the cause where they can.

    ## What to try
    Overfit a single batch first. If that fails too: a learning rate far too small or too large, gradients that do not
    reach the model, the wrong input to the loss (softmax twice, shapes that broadcast). If it works: inputs and labels
    that do not belong together.

    ## Options
    - `steps` (100 steps at full rate): fewer prove nothing.
    - `fall` (0.01, share of the loss): a smaller fall counts as flat. SageMaker Debugger's LossNotDecreasing has 0.001
      per 10 steps, and fires on every healthy training.
    - `errors` (2 standard errors, by batch means, which autocorrelation does not fool).
    - `margin` (0.05, share of the zero-information loss): calibrated, healthy trainings of 100 steps had learned 25 %.

    ## References
    - Karpathy, A recipe for training neural networks 2019. Full Stack Deep Learning, Troubleshooting.
    """

    code: ClassVar[str] = "LOS001"
    name: ClassVar[str] = "stalled-loss"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    # Symptoms of the loss explain each other, so that the cause of one is that of all; the surest is told first.
    explains: ClassVar[tuple[str, ...]] = ("LOS002", "LOS004", "LOS005", "LOS006")

    steps: int = 100
    """Steps at full learning rate."""
    fall: float = 0.01
    """Share of the loss."""
    errors: float = 2.0
    """Standard errors."""
    margin: float = 0.05
    """Share of the zero-information loss."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the loss does not have to fall")
        progress = measured(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")
        series = _at_full_rate(run)
        if series.height < self.steps:
            raise NotApplicable(
                f"{series.height} steps at full learning rate with a finite loss are too few; {self.steps} are needed"
            )
        bound = out_of_reach(run)
        if bound is not None and not did_well(progress) and not still_falling(run):
            yield self._bounded(run, bound)
            return
        knows_nothing = uninformed(run, progress, self.margin)
        if knows_nothing is None:
            raise NotApplicable(
                "the floor of this loss is not known: it is no cross-entropy, and predictions and targets were not seen"
            )
        late = series.tail(series.height // 2)
        half = late.height // 2
        earlier, later = batch_mean(late["loss"].head(half)), batch_mean(late["loss"].tail(half))
        if knows_nothing and self._stalled(progress, earlier, later):
            yield self._finding(run, progress, late, earlier, later)

    def _stalled(self, progress: Progress, earlier: Mean, later: Mean) -> bool:
        fallen = earlier.value - later.value
        doubt = self.errors * math.hypot(earlier.error, later.error)
        flat = fallen + doubt < self.fall * later.value
        above = progress.zero is not None and later.value - self.errors * later.error > progress.zero.prior
        return flat or (above and fallen < doubt)

    def _bounded(self, run: Run, bound: Bound) -> Finding:
        """A regression that is held up by its own output layer."""
        before, end = last_quarters(run)
        limits = "0" if bound.high == math.inf else f"{number(bound.low)} to {number(bound.high)}"
        reach = f"stay {'above' if bound.high == math.inf else 'within'} {limits} and press against it"
        targets = f"the targets span {number(bound.target_low)} to {number(bound.target_high)}"
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning",
            message=f"The loss stays at {number(end.value)}: the predictions {reach}, while {targets}, of which"
            f" {percent(bound.beyond)} is out of reach.",
            confidence=0.88,
            first_step=run.first_step,
            last_step=run.last_step,
            value=bound.beyond,
            evidence=Evidence(
                (
                    f"No prediction lay outside of what a {bound.layer} yields, at any probe.",
                    f"The mean loss of the last quarter is {number(end.value)}, after {number(before.value)}.",
                )
            ),
            causes=(
                f"A {bound.layer} after the last layer, which cannot reach the targets",
                "Targets that are not scaled to the range of the outputs",
            ),
            advice=("Leave out the activation after the last layer.", "Or scale the targets into its range."),
            chart=ChartRef("steps", "prediction_min"),
        )

    def _finding(self, run: Run, progress: Progress, late: pl.DataFrame, earlier: Mean, later: Mean) -> Finding:
        zero = progress.zero
        rising = later.exceeds(earlier, self.errors) and later.value > 1.1 * earlier.value
        change = f"{number(later.value - earlier.value, 2)} ± {number(math.hypot(earlier.error, later.error), 2)}"
        causes = ("Flipped sign: the optimizer ascends",) * rising
        causes += ("Softmax before a loss that applies its own",) * given_probabilities(run)
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The loss {'rises and is' if rising else 'stays'} at {_level(later, zero)}: from steps"
            f" {count(late['step'][0])} to {count(late['step'][-1])} it changed by {change}.",
            confidence=0.9,
            first_step=_since(run, later),
            last_step=int(losses(run)["step"][-1]),
            value=later.value,
            threshold=(1 - self.margin) * zero.prior if zero else None,
            evidence=_evidence(run, progress, earlier, later),
            causes=causes + _CAUSES,
            advice=(
                "Overfit one batch: the loss must go to about zero.",
                "Compare the shapes of predictions and targets, and what the loss expects.",
                "Show a batch of inputs with their labels.",
                "Try learning rates ten times larger and ten times smaller.",
            ),
            chart=ChartRef("steps", "loss", reference=zero.prior if zero else None),
        )


_CAUSES = (
    "Learning rate far too small, or so large that units died",
    "Gradients do not reach the model: detached, frozen, not in the optimizer, vanishing",
    "Wrong input to the loss: softmax twice, shapes that broadcast",
    "Labels that do not belong to the inputs",
)


def _level(later: Mean, zero: ZeroInformation | None) -> str:
    """The level of the loss and what it means."""
    value = number(later.value)
    if zero is None:
        return f"{value}, and the predictions are nearly the same for all samples"
    ignorance = f"{zero.name} ({number(zero.prior)})"
    if later.value > 1.1 * zero.prior:
        return f"{value}, above {ignorance}, where a model that knows nothing of its input is"
    return f"{value}, about {ignorance}, where a model that knows nothing of its input is"


def _at_full_rate(run: Run) -> pl.DataFrame:
    """Steps and losses between warm-up and decay."""
    phase = phases(run)
    series = losses(run)
    return series if phase is None else series.filter(pl.col("step").is_between(*phase.full()))


def _since(run: Run, later: Mean) -> int:
    """The first step from which on the loss is within a twentieth of its level at the end."""
    series = losses(run)
    off = series.filter((pl.col("loss") - later.value).abs() > 0.2 * later.value)
    if off.is_empty() or off["step"][-1] == series["step"][-1]:
        return int(series["step"][0])
    return int(series.filter(pl.col("step") > off["step"][-1])["step"][0])


def _evidence(run: Run, progress: Progress, earlier: Mean, later: Mean) -> Evidence:
    before = f"{number(earlier.value)} ± {number(earlier.error, 2)}"
    after = f"{number(later.value)} ± {number(later.error, 2)}"
    supporting = [f"The mean loss was {before}, then {after} (standard errors by batch means)."]
    opposing = []
    spread = prediction_spread(run)
    if spread is not None:
        supporting.append(f"The predictions of a batch spread over {percent(spread)} of the range of the targets.")
    if progress.start > 1.2 * later.value:
        opposing.append(f"The loss began higher, at {number(progress.start)}.")
    return Evidence(tuple(supporting), tuple(opposing))
