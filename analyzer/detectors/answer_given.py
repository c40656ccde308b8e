"""DAT012: the answer is among the inputs, or the outputs of a sequence depend on what is yet to come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..progress import full_batch
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True, slots=True)
class _Answer:
    """How the answer gets in. `value` and `threshold` are what decided."""

    told: str
    evidence: str
    value: float
    threshold: float
    causes: tuple[str, ...]
    advice: tuple[str, ...]


@dataclass(frozen=True)
class AnswerGiven(Detector):
    """The model is given what it is to predict: as a feature, as the target itself, or through what comes later.

    ## What it does
    *Features:* over the first probes the target explains all of the variance of one feature of the input, of at least
    two: it is a copy of the target, one-hot or by a linear map. *Sequences* whose targets are inputs of the next
    position: an output, differentiated in what the first layer makes of these inputs, depends on later positions; what
    that layer mixes itself is not seen. *Targets that are not shifted:* they equal the inputs at their own position,
    and the output depends on no later one, as that of an autoencoder does.

    ## Why it matters
    The training loss is excellent, and so is that on validation data which are prepared alike. Where the model is
    needed the answer is not there.

    ## What to try
    Leave that feature out. Mask what is later: compute an output with the later positions changed, it must stay.
    Compare `inputs[:, 1:]` with `targets[:, :-1]`.

    ## Options
    - `copied` (1e-06, share of a feature's variance that the target does not explain): rounding.
    - `samples` (300): of fewer, a class may share a rare feature by chance.
    - `equal` (0.995, share of the targets): all, but for what is cut off or replaced at the edges.
    - `later` (0.01, share of the gradient by its norm): zero by definition.

    ## References
    - Kaufman et al. 2012, Leakage in data mining. Karpathy, A recipe for training neural networks 2019: use backprop to
      chart dependencies.
    """

    code: ClassVar[str] = "DAT012"
    name: ClassVar[str] = "answer-given"
    severity: ClassVar[Severity] = "error"
    explains: ClassVar[tuple[str, ...]] = ("DAT008", "CUR003", "GEN001", "GEN003")

    copied: float = 1e-6
    """Share of variance."""
    samples: int = 300
    """Samples."""
    equal: float = 0.995
    """Share of the targets."""
    later: float = 0.01
    """Share of the gradient."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if not (run.has("steps", "copied_share") or run.has("steps", "sequence_next")):
            raise NotApplicable("inputs and targets were not compared: neither one target a sample, nor sequences")
        found = self._in_sequence(run) or self._in_feature(run)
        if found is not None:
            yield self._finding(run, found)

    def _in_feature(self, run: Run) -> _Answer | None:
        frame = run.frame("steps", "copied_share", "copied_feature", "copied_samples", "batch_size").drop_nulls()
        frame = frame.filter(pl.col("copied_share").is_finite() & pl.col("copied_feature").is_finite())
        if frame.is_empty() or run.manifest.mode == "overfit-batch":
            return None
        rest = 1 - scalar(frame["copied_share"][-1])
        seen = scalar(frame["batch_size"].max() if full_batch(run) else frame["copied_samples"][-1])
        if rest > self.copied or seen < self.samples:
            return None
        feature = count(int(frame["copied_feature"][-1]))
        return _Answer(
            told=f"Feature {feature} of the input is a copy of the target",
            evidence=f"The target explains all of its variance but {number(rest, 2)}, over {count(int(seen))} samples"
            f" up to step {count(int(frame['step'][-1]))}.",
            value=rest,
            threshold=self.copied,
            causes=("A column that is the label, or was made from it, was left among the features",),
            advice=(f"Leave feature {feature} out (counted from 0 in the flattened input of a sample).",),
        )

    def _in_sequence(self, run: Run) -> _Answer | None:
        frame = run.frame("steps", "sequence_here", "sequence_next", "sequence_later").drop_nulls()
        frame = frame.filter(pl.col("sequence_later").is_finite())
        if frame.is_empty():
            return None
        step, here, following, later = frame.row(frame["sequence_later"].arg_max() or 0)
        if following >= self.equal > here and later > self.later:
            return _Answer(
                told="The outputs at a position depend on later positions of the input, which hold the target",
                evidence=f"{percent(following)} of the targets are the inputs of the next position, and"
                f" {percent(later)} of the gradient of the output before the middle falls on inputs after it (step"
                f" {count(step)}).",
                value=later,
                threshold=self.later,
                causes=(
                    "No causal mask, or one that is off by one or inverted",
                    "A softmax or a normalisation over the positions, in place of the keys or the features",
                    "A recurrence in both directions, or a convolution that is padded on both sides",
                ),
                advice=(
                    "Change the later positions of an input: the outputs before them must stay.",
                    "Print the mask; look at every dim= in the attention.",
                ),
            )
        if here >= self.equal > following and later <= self.later:
            return _Answer(
                told="The targets are the inputs of the same position: the sequence was not shifted",
                evidence=f"{percent(here)} of the targets equal the input at their own position, and no output depends"
                f" on a later one, as those of an autoencoder would.",
                value=here,
                threshold=self.equal,
                causes=("Targets, or the prefix that a decoder is given, that are not shifted by one",),
                advice=("Give the model inputs[:, :-1], and targets inputs[:, 1:].",),
            )
        return None

    def _finding(self, run: Run, found: _Answer) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The answer is given to the model. {found.told}.",
            confidence=0.9,
            first_step=run.first_step,
            last_step=run.last_step,
            value=found.value,
            threshold=found.threshold,
            unit="share",
            evidence=Evidence((found.evidence,)),
            causes=found.causes,
            advice=found.advice,
            chart=ChartRef("steps", "loss"),
        )
