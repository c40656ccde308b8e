"""DAT008: a model that is nearly perfect almost at once, because the answer is in its input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..loss_inputs import loss_calls
from ..noise import scalar
from ..progress import Progress, adversarial, full_batch, loss_name, losses, measured
from ..run import Run
from ..starts import wide_start
from ..validation import logged
from ..wording import count, number, percent
from .base import Detector

_REGRESSION = frozenset({"mse", "l1", "smoothl1", "huber"})


@dataclass(frozen=True)
class LeakedAnswer(Detector):
    """Too good too soon: nine tenths of the loss are gone within a few steps, and in the end nearly all of it.

    ## What it does
    Fires if the loss is below a tenth of that of a model that knows nothing (of a regression: of the first loss) within
    20 steps and a twentieth of the run, and ends below 1 % of it. For the tokens of a sequence, whose next one nobody
    can foretell that well, a fifth of the run is soon enough. Validation data must agree, where their loss was logged:
    it is below 3 %. A warning then, a note otherwise, and where each step takes all of the data: data that are told
    apart by a straight line are learned as fast, so that this alone proves nothing. A note, too, if a regression or the
    next tokens of sequences are foretold on validation data so well that hardly anything of the loss is left, however
    long it took.

    ## Why it matters
    An identifier, a column made from the label, or a target that is not shifted makes a perfect model that is of no
    use: where it is needed the answer is not there.

    ## What to try
    Train on each feature alone, and look at those that are perfect alone. Look for columns that are known only after
    the fact, for rows that are in training and validation data alike; in sequences at the mask and the shift.

    ## Options
    - `steps` (20 steps): calibrated. Healthy trainings took 26 to 300 steps to a tenth, those with the answer 16 to 20.
    - `share` (0.05, share of the run), `tokens` (0.2, the same for sequences).
    - `rest` (0.01, share of the loss at the end): with the answer among the features 0.002 to 0.008 were left.
    - `elsewhere` (0.03, the same on validation data).
    - `almost` (0.02, the same of tokens at any time) and `digits` (0.005, of quantities): calibrated, healthy trainings
      had 0.08 and 0.008 left.

    ## References
    - Kaufman et al. 2012, Leakage in data mining.
    """

    code: ClassVar[str] = "DAT008"
    name: ClassVar[str] = "leaked-answer"
    severity: ClassVar[Severity] = "warning"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("CUR003",)

    steps: int = 20
    """Steps."""
    share: float = 0.05
    """Share of the run."""
    tokens: float = 0.2
    """Share of the run."""
    rest: float = 0.01
    """Share of the loss that knows nothing."""
    elsewhere: float = 0.03
    """Share of the loss that knows nothing."""
    almost: float = 0.02
    """Share of the loss that knows nothing."""
    digits: float = 0.005
    """Share of the first loss."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run) or run.manifest.mode == "overfit-batch":
            raise NotApplicable("several optimizers take turns, or one batch is repeated: low losses tell nothing")
        progress = measured(run)
        if progress is None or (progress.zero is None and loss_name(run) not in _REGRESSION):
            raise NotApplicable("how much there is to learn is not known: no plain classification, nor a regression")
        if progress.zero is None and wide_start(run) is not None:
            raise NotApplicable("the first predictions were far off: beside their loss any other is small")
        if run.attempts[0].first_step != 0 or not losses(run)["loss"][0] > 0.3 * progress.reference:
            raise NotApplicable("the model knew something already when the run began")
        if run.has("steps", "evaluations") and scalar(run.frame("steps", "evaluations")["evaluations"].max()) > 1:
            raise NotApplicable("a step of this optimizer makes several passes: steps do not tell how soon")
        soon = self._soon(run, progress)
        agrees = self._agrees(run, progress)
        if soon is not None and progress.end.value < self.rest * progress.reference and agrees is not False:
            yield self._finding(run, progress, soon, confirmed=agrees is True and not full_batch(run))
        elif self._too_good(run, progress):
            yield self._finding(run, progress, None, confirmed=False)

    def _too_good(self, run: Run, progress: Progress) -> bool:
        """Whether next to nothing is left of what nobody foretells to the last digit: a quantity, or the next token."""
        values = logged(run, "loss")["value"]
        if len(values) < 3 or not (_tokens(run) or loss_name(run) in _REGRESSION):
            return False
        limit = (self.almost if _tokens(run) else self.digits) * progress.reference
        return scalar(values.tail(3).median()) < limit and progress.end.value < limit

    def _soon(self, run: Run, progress: Progress) -> int | None:
        """The step at which the loss fell below a tenth, if that is too soon."""
        series = losses(run).with_columns(pl.col("loss").rolling_median(5, min_samples=1))
        low = series.filter(pl.col("loss") < 0.1 * progress.reference)["step"]
        if low.is_empty():
            return None
        limit = self.tokens * run.step_count if _tokens(run) else min(self.steps, self.share * run.step_count)
        return int(low[0]) if low[0] <= limit else None

    def _agrees(self, run: Run, progress: Progress) -> bool | None:
        """Whether the validation data are predicted as well; None if no loss was logged for them, or in other units."""
        values = logged(run, "loss")["value"]
        if values.is_empty() or (progress.zero is not None and progress.zero.scale != 1):
            return None
        return scalar(values.tail(3).median()) < self.elsewhere * progress.reference

    def _finding(self, run: Run, progress: Progress, soon: int | None, *, confirmed: bool) -> Finding:
        left = progress.end.value / progress.reference if progress.reference else math.nan
        reference = progress.zero.name if progress.zero else "the first loss"
        what = f"of {reference} ({number(progress.reference)})"
        quick = f"At step {count(soon)} of {count(run.step_count)} a tenth was left {what}."
        supporting = [] if soon is None else [quick]
        if confirmed or soon is None:
            supporting.append("The loss on validation data is as low.")
        fell = "" if soon is None else f"fell below a tenth {what} by step {count(soon)}, and "
        end = f"ended at {percent(left)} of {'it' if soon is not None else what.removeprefix('of ')}"
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if confirmed else "note",
            message=f"Too good {'' if soon is None else 'too soon '}to be true: the loss {fell}{end}.",
            confidence=0.6 if confirmed else 0.4,
            first_step=run.first_step,
            last_step=run.last_step if soon is None else soon,
            value=left if soon is None else float(soon),
            threshold=self.almost if soon is None else float(self.steps),
            unit="share" if soon is None else "steps",
            evidence=Evidence(tuple(supporting), ("Classes that a straight line tells apart are learned as fast.",)),
            causes=(
                "A feature that is made from the target, or known only after it",
                "A sequence whose target is not shifted, or a mask that lets the model see it",
                "Rows that are in the training and in the validation data",
            ),
            advice=(
                "Train on each feature alone: one that is perfect alone is the answer, or nearly.",
                "Compare the rows of training and validation data.",
                "Check the shift of the targets and the causal mask.",
            ),
            chart=ChartRef("steps", "loss"),
        )


def _tokens(run: Run) -> bool:
    """Whether the loss is over more targets than there are samples, of at least ten classes: tokens of sequences."""
    call = next(iter(loss_calls(run)), None)
    sizes = run.frame("steps", "batch_size")["batch_size"].drop_nulls()
    if call is None or call.target is None or call.prediction is None or not len(sizes) or len(call.prediction) < 2:
        return False
    return math.prod(call.target) > sizes[0] and call.prediction[1] >= 10 and loss_name(run) == "crossentropy"
