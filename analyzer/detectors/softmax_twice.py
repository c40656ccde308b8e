"""DAT003: probabilities where the loss expects logits, or logits where it expects log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..loss_inputs import (
    LOGARITHMS,
    LOGITS,
    add_up_to_one,
    ends_in,
    loss_calls,
    lowest_cross_entropy,
    normalised_elsewhere,
    ranges,
    same_loss_throughout,
    squashed,
)
from ..noise import scalar
from ..progress import loss_name, measured
from ..run import Run
from ..wording import count, number
from .base import Detector


@dataclass(frozen=True)
class SoftmaxTwice(Detector):
    """The loss is given probabilities though it applies a softmax itself, or the softmax that it expects is missing.

    ## What it does
    Looks at the range of the predictions that the loss was given, at every probe. A cross-entropy expects logits: if
    all predictions are at least zero and add up to one over the classes, a softmax was applied before. With logits of
    single outputs (a binary cross-entropy), or sigmoids over classes, the predictions never leave [0, 1] nor reach
    zero, though they spread over half of it or the model ends in a sigmoid. A negative log-likelihood expects
    log-probabilities, which are never positive: if they are, it was given probabilities, or logits. A cross-entropy
    of log-probabilities is no finding: a second log-softmax changes nothing.

    ## Why it matters
    Of C probabilities the softmax makes values between 1/(C - 1 + e) and e/(C - 1 + e): the loss cannot fall below
    ln(C - 1 + e) - 1, gradients are small, and the model is never sure. It looks like a model that learns badly. A
    likelihood of logits falls without bound and means nothing.

    ## What to try
    Give the loss the output of the last linear layer. Apply softmax or sigmoid only where probabilities are wanted.

    ## Options
    - `probes` (3 probes): a single batch may look like anything. A guess.

    ## References
    - Full Stack Deep Learning, Troubleshooting: the wrong input to the loss is among the five most common bugs.
    """

    code: ClassVar[str] = "DAT003"
    name: ClassVar[str] = "softmax-twice-or-missing"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("prediction_min", "prediction_max")}
    explains: ClassVar[tuple[str, ...]] = (
        "LOS001", "LOS004", "LOS005", "LOS006", "STP001", "STP002", "GRD002", "ACT002", "DAT006", "DAT007", "GEN002",
    )  # fmt: skip

    probes: int = 3
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        loss = loss_name(run)
        if loss not in LOGITS | LOGARITHMS:
            raise NotApplicable("what this loss expects of its predictions is not known")
        if not same_loss_throughout(run):
            raise NotApplicable("several losses were called, so that the predictions are not of one kind")
        frame = ranges(run)
        if frame.height < self.probes:
            raise NotApplicable(f"{frame.height} probes saw predictions with finite values; {self.probes} are needed")
        given = _given(run, loss, frame)
        if given:
            yield self._finding(run, loss, frame, given)

    def _finding(self, run: Run, loss: str, frame: pl.DataFrame, given: str) -> Finding:
        low, high = scalar(frame["low"].min()), scalar(frame["high"].max())
        name = next((call.name for call in loss_calls(run)), "") or loss
        expects = "logits, to which it applies its own softmax or sigmoid" if loss in LOGITS else "log-probabilities"
        seen = f"in all {count(frame.height)} probes the predictions lie between {number(low)} and {number(high)}"
        adding = " and add up to one over the classes" if "add" in given else ""
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"{name} expects {expects}, and is given {given.partition(',')[0]}: {seen}{adding}.",
            confidence=0.97,
            first_step=int(frame["step"][0]),
            last_step=int(frame["step"][-1]),
            value=high,
            threshold=1.0 if loss in LOGITS else 0.0,
            evidence=_evidence(run, loss, frame, given),
            causes=_causes(loss, given),
            advice=_advice(loss, given),
            chart=ChartRef("steps", "prediction_max", reference=1.0 if loss in LOGITS else 0.0),
        )


def _given(run: Run, loss: str, frame: pl.DataFrame) -> str:
    """What the loss is given in place of what it expects, "" if nothing shows that it is."""
    if loss in LOGARITHMS:
        high, low = scalar(frame["high"].max()), scalar(frame["low"].min())
        if high <= 1e-3:
            return ""
        return "probabilities" if low >= 0 and high <= 1 + 1e-3 else "logits, or other unnormalised values"
    if add_up_to_one(frame):
        return "probabilities, which add up to one"
    if normalised_elsewhere(run, frame) is None and squashed(run, frame):
        return "probabilities"
    return ""


def _causes(loss: str, given: str) -> tuple[str, ...]:
    if loss in LOGITS:
        return ("Softmax or sigmoid in the model, before a loss that applies its own",)
    return ("Softmax without the logarithm",) if given == "probabilities" else ("The log-softmax is missing",)


def _advice(loss: str, given: str) -> tuple[str, ...]:
    if loss in LOGITS:
        return (
            "Remove the softmax or sigmoid at the end of the model: give the loss the output of the last linear layer.",
            "Apply it only where probabilities are wanted, after the loss.",
        )
    return (
        "Give the loss log_softmax(logits)." if given == "probabilities" else "Apply log_softmax before this loss.",
        "Or use cross_entropy on the logits, which does both.",
    )


def _evidence(run: Run, loss: str, frame: pl.DataFrame, given: str) -> Evidence:
    supporting: list[str] = []
    opposing: list[str] = []
    if "add" in given:
        least, most = scalar(frame["least"].min()), scalar(frame["most"].max())
        supporting.append(f"The sums over the classes lie between {number(least, 6)} and {number(most, 6)}.")
    if (last := ends_in(run)) in {"Softmax", "Sigmoid", "LogSoftmax"}:
        supporting.append(f"The model ends in a {last}.")
    progress = measured(run)
    if progress is None:
        supporting.append("The loss takes negative values.")
    elif loss in LOGITS:
        classes = next((call.prediction[1] for call in loss_calls(run) if call.prediction and call.prediction[1:]), 0)
        lowest = lowest_cross_entropy(classes) if loss == "crossentropy" and classes > 1 else lowest_cross_entropy(2)
        told = f"{number(progress.end.value)} at the end"
        supporting.append(f"Of such predictions the loss cannot fall below {number(lowest)}: it was {told}.")
        if progress.end.value < lowest:
            opposing.append("It is lower: the loss that is differentiated is not that of these predictions alone.")
    return Evidence(tuple(supporting), tuple(opposing))
