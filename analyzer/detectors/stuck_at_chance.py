"""LOS005: a classification whose loss stays at that of a model that knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..depth import of_weights
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import Mean, batch_mean, block_length, blocks, scalar
from ..phases import phases
from ..progress import ZeroInformation, adversarial, constant_input, given_probabilities, losses, zero_information
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class StuckAtChance(Detector):
    """A classification stays at the loss of a model that knows nothing: ln C for C classes that are equally frequent.

    ## What it does
    Compares the mean losses of blocks of steps with the loss of a model that knows nothing of its input: ln C, or the
    entropy of the class frequencies where those differ. The run is stuck if half of it or more lies within 2 % of that
    value, its last tenth too, and the loss is not about to leave it. Runs whose learning rate was still rising when
    they ended, and losses that scatter too much to tell, are not judged.

    ## Why it matters
    The outputs do not depend on the inputs, or the inputs say nothing of the labels. Longer training changes neither.
    It is a symptom: other rules name the cause where they can.

    ## What to try
    Overfit a single batch. If that fails: look for units that died, weights that began at zero, parts that are detached
    or frozen, a softmax before a loss that has its own. If it works: show a batch with its labels, as the training loop
    sees them; inputs that are all the same and labels that were shuffled apart from them look like this.

    ## Options
    - `band` (0.02, share of the zero-information loss): a guess that fits all recordings so far.
    - `share` (0.5, of the run): half of it.
    - `steps` (100 steps): fewer prove nothing.

    ## References
    - Karpathy, A recipe for training neural networks 2019: verify the loss at initialisation.
    - Full Stack Deep Learning, Troubleshooting.
    """

    code: ClassVar[str] = "LOS005"
    name: ClassVar[str] = "stuck-at-chance"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001",)

    band: float = 0.02
    """Share of the zero-information loss."""
    share: float = 0.5
    """Share of the run."""
    steps: int = 100
    """Steps with a finite loss."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the loss does not have to fall")
        zero, series = zero_information(run), losses(run)
        if zero is None:
            raise NotApplicable(
                "the loss of a model that knows nothing is not known: this is no cross-entropy as it stands"
            )
        if series.height < self.steps:
            raise NotApplicable(f"{series.height} steps with a finite loss are too few; {self.steps} are needed")
        phase = phases(run)
        if phase is not None and phase.full_from is None:
            raise NotApplicable("the learning rate was still rising when the run ended")
        means = blocks(series, "loss", block_length(series.height))
        if scalar((means["noise"] / means["rows"].sqrt()).median()) > self.band * zero.prior:
            raise NotApplicable(f"the losses scatter too much to tell {percent(self.band)} from chance")
        stuck = means.filter(self._at_chance(zero))
        share = scalar(stuck["rows"].sum()) / series.height
        if share < self.share:
            return
        first, last = int(stuck["first_step"][0]), int(stuck["last_step"][-1])
        mean = batch_mean(series.filter(pl.col("step").is_between(first, last))["loss"])
        end = batch_mean(series["loss"].tail(max(self.steps // 2, series.height // 10)))
        if self._within(end, zero) and not self._leaving(mean, end, zero):
            yield self._finding(run, zero, mean, share, first)

    def _at_chance(self, zero: ZeroInformation) -> pl.Expr:
        levels = (zero.prior, zero.uniform)
        return pl.any_horizontal((pl.col("mean") - level).abs() <= self.band * level for level in levels)

    def _within(self, end: Mean, zero: ZeroInformation) -> bool:
        return any(abs(end.value - level) <= self.band * level for level in (zero.prior, zero.uniform))

    def _leaving(self, mean: Mean, end: Mean, zero: ZeroInformation) -> bool:
        """Whether the loss has begun to fall: a plateau that is being left is none to be stuck on."""
        return mean.exceeds(end, 3) and mean.value - end.value > self.band / 4 * zero.prior

    def _finding(self, run: Run, zero: ZeroInformation, mean: Mean, share: float, first: int) -> Finding:
        level = zero.prior if abs(mean.value - zero.prior) <= abs(mean.value - zero.uniform) else zero.uniform
        name = zero.name if level == zero.prior else "the loss of uniform predictions"
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"For {percent(share)} of the run the loss is {number(mean.value)}, within {percent(self.band)} of"
            f" {name} ({number(level)}), where a model that knows nothing of its input is.",
            confidence=0.92,
            first_step=first,
            last_step=int(losses(run)["step"][-1]),
            value=share,
            threshold=self.share,
            evidence=_evidence(run, mean),
            causes=_causes(run),
            advice=(
                "Overfit one batch: the loss must go to about zero.",
                "Show a batch of inputs with their labels, as the training loop sees them.",
                "Hand the loss logits, without a softmax or sigmoid before it.",
                "Look at the gradients of the first layers: zero means dead, detached or frozen.",
            ),
            chart=ChartRef("steps", "loss", reference=level),
        )


def _starved(run: Run) -> float | None:
    """Share of the weight tensors that got no gradient at all over the last quarter of the probes."""
    frame = of_weights(run, "grad_norm").drop_nulls()
    late = frame.filter(pl.col("step") >= pl.col("step").unique().quantile(0.75))
    largest = late.group_by("tensor").agg(pl.col("grad_norm").max())["grad_norm"]
    return scalar((largest == 0).mean()) if len(largest) else None


def _causes(run: Run) -> tuple[str, ...]:
    """Causes, those first for which the figures speak."""
    dead = "No gradient reaches the first layers: dead units, weights that began at zero, or a detached part"
    labels = "Labels that do not belong to the inputs (shuffled apart, or read from the wrong column)"
    starved = (_starved(run) or 0.0) > 0
    return (
        *("The inputs are all the same",) * constant_input(run),
        *("Softmax before a loss that applies its own",) * given_probabilities(run),
        *((dead, labels) if starved else (labels, dead)),
        "A learning rate so large that the units died, or far too small",
        "Regularisation that outweighs the loss",
    )


def _evidence(run: Run, mean: Mean) -> Evidence:
    supporting = [f"The mean loss is {number(mean.value)} ± {number(mean.error, 2)} (standard error by batch means)."]
    opposing: list[str] = []
    late = run.frame("steps", "prediction_min", "prediction_max").drop_nulls()
    if not late.is_empty():
        span = scalar((late["prediction_max"] - late["prediction_min"]).tail(max(1, late.height // 4)).median())
        told = f"The outputs of a batch spread over {number(span, 3)}"
        (supporting if span < 1 else opposing).append(f"{told}: {'they say little' if span < 1 else 'they differ'}.")
    if constant_input(run):
        supporting.append("The standard deviation of the input is zero at every probe.")
    starved = _starved(run)
    if starved:
        supporting.append(f"{percent(starved)} of the weight tensors get no gradient at all.")
    elif starved is not None:
        opposing.append("All weight tensors get gradients.")
    beginning = scalar(losses(run)["loss"].head(3).median())
    if beginning > 1.2 * mean.value:
        opposing.append(f"The loss began higher, at {number(beginning)}.")
    if (steps := run.step_count) < 500:
        opposing.append(f"The run has {count(steps)} steps only.")
    return Evidence(tuple(supporting), tuple(opposing))
