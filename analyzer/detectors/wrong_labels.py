"""DAT007: labels that do not belong to their inputs, or many of which are wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..classes import class_table, order, shares
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..label_fit import has_batch_norm, redrawn, sound, training_accuracy
from ..noise import batch_mean, block_length, blocks, scalar
from ..overshoot import harm
from ..phases import Phases, phases
from ..progress import Progress, adversarial, losses, measured, weighted
from ..run import Run
from ..validation import logged
from ..wording import number, percent
from .base import Detector

_Found = tuple[str, list[str], Severity, float]
"""What the labels are, the evidence, severity and confidence."""


@dataclass(frozen=True)
class WrongLabels(Detector):
    """The labels do not belong to the inputs: they are random, shifted against them, or many of them are wrong.

    ## What it does
    Inputs that are the same at every probe, with other labels each time, are a finding at once. Of losses other than
    classifications it warns if the training loss falls by a fifth, and the validation loss, which begins where that
    did, never falls. It judges classifications in three ways. *Memorised:* the training loss falls below that of a
    model that knows nothing, the validation loss never did, nor was the accuracy better than that of the most frequent
    class. *Nothing to learn:* the loss stays at that of a model that knows nothing, though the layers move at a sound
    pace without aim, the inputs are sound, and nothing harmed the loss; where individual gradients were recorded, they
    must cancel out from the start as noise does. *Noise:* the accuracy on validation data exceeds that on training data
    by a fifth, in a model without dropout, so that the training labels are wrong where the model is right.

    ## Why it matters
    No model and no rate can mend it. A large network memorises such labels, and its training loss looks like success.

    ## What to try
    Show a batch of inputs with their labels. Shuffle both by the same permutation, sort both by the same key; check how
    files and labels are paired. For noise: look at the training samples with the largest losses.

    ## Options
    - `steps` (100 steps): fewer prove nothing.
    - `margin` (0.03, share of the loss that knows nothing): a validation loss lower than that has learned something.
      Calibrated: random labels stayed above 0.99 of it, healthy trainings went below 0.8.
    - `learned` (0.1, share of that loss): calibrated with random labels, which are memorised slowly.
    - `little` (0.03, the same, where no individual gradients were recorded): noisy data had 0.1 at the least.
    - `gap` (0.2, accuracy on validation less accuracy on training data): calibrated. 35 % wrong labels make 0.3, batch
      norm and small augmentation less than 0.1.
    - `skew` (0.25, share of the loss that knows nothing): a validation loss that is above it by more, with an accuracy
      of twice chance, is one of data in which the classes are of another frequency.
    - `signal` (-0.35, early-stopping evidence over the first 50 probes): 0 for noise; calibrated, labels that belong to
      their inputs had -0.5 to -6, random and shifted ones -0.05 to -0.15.

    ## References
    - Zhang et al. 2017, Understanding deep learning requires rethinking generalization. Mahsereci et al. 2017.
    - Full Stack Deep Learning, Troubleshooting: a loss that is flat too early; corrupt labels.
    """

    code: ClassVar[str] = "DAT007"
    name: ClassVar[str] = "wrong-labels"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "LOS004", "LOS005", "CUR001", "CUR003", "GEN001", "GEN003")

    steps: int = 100
    """Steps."""
    margin: float = 0.03
    """Share of the zero-information loss."""
    learned: float = 0.1
    """Share of the zero-information loss."""
    little: float = 0.03
    """Share of the zero-information loss."""
    gap: float = 0.2
    """Accuracy."""
    skew: float = 0.25
    """Share of the zero-information loss."""
    signal: float = -0.35
    """Early-stopping evidence."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if redrawn(run):
            yield self._redrawn(run)
            return
        if adversarial(run) or run.manifest.mode == "overfit-batch":
            raise NotApplicable(
                "the loss does not tell how well labels fit to inputs: several optimizers, or one batch"
            )
        progress, phase = measured(run), phases(run)
        unshared = None if progress is None or progress.zero else self._unshared(run, progress)
        if progress is not None and unshared:
            yield self._finding(run, progress, *unshared)
            return
        if progress is None or progress.zero is None or phase is None or class_table(run).is_empty():
            raise NotApplicable("the loss of a model that knows nothing is not known: it is no plain classification")
        if run.step_count < self.steps:
            raise NotApplicable(f"{run.step_count} steps are too few; {self.steps} are needed")
        found = self._memorised(run, progress) or self._noisy(run) or self._nothing(run, progress, phase)
        if found:
            yield self._finding(run, progress, *found)

    def _redrawn(self, run: Run) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message="The labels do not fit to the inputs: the inputs are the same at every step, the labels are not.",
            confidence=0.95,
            first_step=run.first_step,
            last_step=run.last_step,
            evidence=Evidence(("Mean, deviation and range of the inputs are those of one batch at every probe.",)),
            causes=("Labels that are drawn or shuffled anew at each step, without their inputs",),
            advice=("Take inputs and labels from the same batch, once.",),
            chart=ChartRef("steps", "loss"),
        )

    def _memorised(self, run: Run, progress: Progress) -> _Found | None:
        evaluated, accuracies = logged(run, "loss"), logged(run, "accuracy")
        zero = progress.zero
        if zero is None or zero.scale != 1 or weighted(run):  # the validation loss may be in other units
            return None
        if evaluated.height < 3 or not math.isfinite(progress.end.error):
            return None
        best, most = scalar(evaluated["value"].min()), self._most(run)
        best_accuracy = scalar(accuracies["value"].max()) if len(accuracies) else most
        gained, elsewhere = zero.prior - progress.end.value, zero.prior - best
        falls = gained > max(3 * progress.end.error, 0.02 * zero.prior)
        useless = elsewhere < min(self.margin * zero.prior, 0.25 * gained) and best_accuracy < most + 0.1
        if not (falls and useless) or (progress.learned > 0.5 and has_batch_norm(run)):
            return None
        above_chance = len(accuracies) > 0 and best_accuracy > 2 / len(shares(class_table(run)))
        if above_chance and best > (1 + self.skew) * zero.prior:
            return None
        fell = f"The training loss fell to {number(progress.end.value)}, below the {number(zero.prior)} of a model that"
        told = [f"{fell} knows nothing; the validation loss never was lower than {number(best)}."]
        if len(accuracies):
            told.append(f"The best accuracy on validation data was {percent(best_accuracy)}.")
        return "they are memorised, and say nothing of other data", told, "error", 0.9

    def _unshared(self, run: Run, progress: Progress) -> _Found | None:
        """What is memorised where the loss of a model that knows nothing is not known: by the loss at the start."""
        evaluated, series = logged(run, "loss"), losses(run)
        if evaluated.height < 3 or series.height < self.steps or has_batch_norm(run):
            return None
        before = series.filter(pl.col("step") <= evaluated["step"][0])["loss"].head(20)
        first, best = scalar(evaluated["value"][0]), scalar(evaluated["value"].min())
        last = scalar(evaluated["value"].tail(3).median())
        if before.is_empty() or not (start := batch_mean(before)).value > 0 or not math.isfinite(start.error):
            return None
        comparable = start.value / 1.3 < first < start.value * 1.3
        falls = start.value - progress.end.value > max(0.2 * start.value, 3 * start.error)
        if not (comparable and falls and best > (1 - self.margin) * start.value and last >= best):
            return None
        told = f"The training loss fell from {number(start.value)} to {number(progress.end.value)}; the validation loss"
        return (
            "what is learned of them says nothing of other data",
            [f"{told} went from {number(first)} to {number(last)}, and never was lower than {number(best)}."],
            "warning",
            0.6,
        )

    def _noisy(self, run: Run) -> _Found | None:
        accuracies = logged(run, "accuracy")
        dropout = any(module.type.startswith(("Dropout", "AlphaDropout")) for module in run.manifest.modules)
        mine = None if accuracies.height < 3 or dropout else training_accuracy(run)
        if mine is None:
            return None
        spread = order(class_table(run))
        theirs = scalar(accuracies["value"].tail(2).min())
        if not theirs - mine > self.gap or spread is None or spread.sorted:
            return None
        told = f"At the end {percent(theirs)} of the validation data are predicted as labelled, {percent(mine)} of the"
        told += " training data: augmentation, or mixing samples, would look alike."
        return "many are wrong where the model is right", [told], "note", 0.6

    def _nothing(self, run: Run, progress: Progress, phase: Phases) -> _Found | None:
        zero = progress.zero
        if zero is None or progress.learned > self.learned or harm(run, progress, phase) is not None:
            return None
        mine = training_accuracy(run)
        series = losses(run)
        if scalar(blocks(series, "loss", block_length(series.height))["mean"].min()) < 0.85 * zero.prior:
            return None  # it had learned something, and lost it
        if mine is not None and mine > self._most(run) + 0.1:
            return None
        first, last = phase.full()
        if last - first + 1 < max(self.steps, 0.5 * run.step_count) or not sound(run):
            return None
        evidence = run.frame("steps", "early_stopping")["early_stopping"].drop_nulls().head(50)
        if len(evidence) < 20:
            if progress.learned > self.little:
                return None
            told = "The layers move at a sound pace, and the inputs are sound: nothing else explains the loss."
            return "the model finds nothing in the inputs that tells them", [told], "warning", 0.5
        middle = scalar(evidence.median())
        if middle < self.signal:
            return None
        told = f"From the start the individual gradients cancel out as noise does (evidence {number(middle, 2)})."
        return "the model finds nothing in the inputs that tells them", [told], "error", 0.7

    def _most(self, run: Run) -> float:
        """The accuracy of always predicting the most frequent class."""
        return max(shares(class_table(run)))

    def _finding(
        self, run: Run, progress: Progress, what: str, told: list[str], severity: Severity, confidence: float
    ) -> Finding:
        zero = progress.zero
        end = f"loss {number(progress.end.value)} at the end"
        level = f"; {zero.name} is {number(zero.prior)}" if zero else ""
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"The labels do not fit to the inputs: {what} ({end}{level}).",
            confidence=confidence,
            first_step=run.first_step,
            last_step=run.last_step,
            value=progress.learned,
            threshold=self.learned,
            evidence=Evidence(tuple(told), ("Inputs that say nothing of the labels would look alike.",)),
            causes=(
                "Inputs and labels in different orders: one was shuffled or sorted without the other, or shifted",
                "Wrong labels in the data, or in how they are read",
                "Inputs that lost what tells the classes apart",
            ),
            advice=(
                "Show a batch of inputs with their labels, as the model gets them.",
                "Check that inputs and labels are permuted, cut and sorted together.",
                "Look at the training samples with the largest losses.",
            ),
            chart=ChartRef("steps", "loss", reference=zero.prior if zero else None),
        )
