"""DAT004: a softmax over the samples of the batch in place of the classes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..loss_inputs import OVER_CLASSES, OtherDimension, ends_in, normalised_elsewhere, ranges, same_loss_throughout
from ..noise import scalar
from ..progress import loss_name, measured
from ..run import Run
from ..wording import count, number
from .base import Detector


@dataclass(frozen=True)
class WrongDimension(Detector):
    """The softmax runs over a dimension that is not that of the classes, mostly over the samples of the batch.

    ## What it does
    Looks at the predictions that a cross-entropy or a likelihood was given. A softmax over n samples makes their mean
    1/n, and the mean of their sums over C classes C/n, whatever was learned. If at every probe all predictions lie
    between 0 and 1, their range holds 1/n, and the range of their sums C/n, though they do not add up to one, that is a
    finding. After a log-softmax over n samples they are never positive, at most -ln n in the mean, and at some probe
    all below -ln C, which a log-softmax over the classes cannot be.

    ## Why it matters
    What the model says of a sample depends on the other samples of the batch; it learns to compare samples, not
    classes. Nothing raises an error.

    ## What to try
    `softmax(dim=1)`, or better none at all before a cross-entropy.

    ## Options
    - `probes` (3 probes): a single batch may look like anything. A guess.

    ## References
    - Full Stack Deep Learning, Troubleshooting: a loss that goes up, by a softmax over the wrong dimension.
    """

    code: ClassVar[str] = "DAT004"
    name: ClassVar[str] = "wrong-dimension"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("prediction_min", "prediction_max", "prediction_sum_min", "prediction_sum_max")}
    explains: ClassVar[tuple[str, ...]] = (
        "LOS001", "LOS004", "LOS005", "LOS006", "STP001", "STP002", "GRD002", "DAT003", "DAT006", "DAT007", "GEN002",
    )  # fmt: skip

    probes: int = 3
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if loss_name(run) not in OVER_CLASSES:
            raise NotApplicable("the loss has no dimension of classes")
        if not same_loss_throughout(run):
            raise NotApplicable("several losses were called, so that the predictions are not of one kind")
        frame = ranges(run)
        if frame.height < self.probes:
            raise NotApplicable(f"{frame.height} probes saw predictions with finite values; {self.probes} are needed")
        other = normalised_elsewhere(run, frame)
        if other is not None:
            yield self._finding(run, frame, other)

    def _finding(self, run: Run, frame: pl.DataFrame, other: OtherDimension) -> Finding:
        what = f"the {count(other.size)} samples of a batch" if other.dim == 0 else f"dimension {other.dim}"
        kind, shown = ("log-softmax", _logarithms(frame, other)) if other.logarithms else ("softmax", _sums(frame))
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The predictions were normalised over {what}, not over the {count(other.classes)} classes"
            f" (a {kind} with dim={other.dim}): {shown}.",
            confidence=0.95,
            first_step=int(frame["step"][0]),
            last_step=int(frame["step"][-1]),
            value=scalar(frame["most"].max()),
            threshold=1.0,
            evidence=_evidence(run, frame, other),
            causes=(f"A {kind} with dim={other.dim}, or without one",),
            advice=(
                "Take the softmax over dimension 1; before a cross-entropy leave it out.",
                "Compute one sample alone and within a batch: the outputs must agree.",
            ),
            chart=ChartRef("steps", "prediction_sum_max", reference=1.0),
        )


def _sums(frame: pl.DataFrame) -> str:
    least, most = scalar(frame["least"].min()), scalar(frame["most"].max())
    return f"all lie between 0 and 1, yet over the classes they add up to {number(least, 3)} to {number(most, 3)}"


def _logarithms(frame: pl.DataFrame, other: OtherDimension) -> str:
    lowest = scalar(frame["high"].min())
    limit = -math.log(other.classes)
    return f"all are negative, at times all below {number(lowest, 3)}, where one must be at least {number(limit, 3)}"


def _evidence(run: Run, frame: pl.DataFrame, other: OtherDimension) -> Evidence:
    mean = -math.log(other.size) if other.logarithms else 1 / other.size
    first = f"from {number(scalar(frame['low'][0]), 3)} to {number(scalar(frame['high'][0]), 3)}"
    supporting = [
        f"The first predictions lie {first}, around {number(mean, 3)}, which is that of {other.size} entries."
    ]
    opposing: list[str] = []
    if (last := ends_in(run)) in {"Softmax", "LogSoftmax"}:
        supporting.append(f"The model ends in a {last}.")
    progress = measured(run)
    if progress is not None and progress.zero is not None:
        told = f"The loss ended at {number(progress.end.value)}; {progress.zero.name} is {number(progress.zero.prior)}."
        (opposing if progress.learned > 0.5 else supporting).append(told)
    return Evidence(tuple(supporting), tuple(opposing))
