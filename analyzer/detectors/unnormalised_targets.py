"""DAT002: targets of a regression whose scale or offset is far from that of the predictions of a new network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..depth import update_ratios, weights
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..overshoot import Harm, broken, harm
from ..own_terms import without_floor
from ..phases import phases
from ..progress import adversarial, loss_name, measured
from ..run import Run
from ..wording import count, number, percent
from .base import Detector

_REGRESSION = frozenset({"mse", "l1", "smoothl1", "huber"})
_COLUMNS = ("prediction_min", "prediction_max", "target_min", "target_max")


@dataclass(frozen=True, slots=True)
class _Fit:
    """Predictions beside targets. `low`, `high`, `range`: of all targets. `first`: largest magnitude of the first
    predictions. `way`: step from which on the middle of the predictions is near that of the targets, None if never.
    `off`: distance of the middles at the end, `spread`: of the predictions at the end, both over the range of the
    targets. `growing`: whether that spread still grows, `moving`: whether the range of the targets does,
    as of a model that learns from its own predictions."""

    low: float
    high: float
    first: float
    way: int | None
    off: float
    spread: float
    growing: bool
    moving: bool

    @property
    def size(self) -> float:
        """The largest magnitude of the targets."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class UnnormalisedTargets(Detector):
    """The targets of a regression are not scaled: the training spends itself on reaching their size.

    ## What it does
    Asks for two witnesses, for losses of the kind of the squared error. *The targets:* their largest magnitude is above
    20, and five times that of the first predictions. *The training:* at the end the middle of the predictions is still
    away from that of the targets by a quarter of their range; or it took more than a tenth of the run to get there; or
    the spread of the predictions is below half of the range, and still grows; or the loss was thrown off for good; or a
    step among the first ten was larger than the weights themselves, and less than 95 % of the loss was learned away.
    Targets below a tenth, with first predictions that are far beyond them, are worth a warning.
    Only predictions and targets are compared, so that the units of the loss do not matter. Beside terms that are
    negative now and then the errors are those of a critic, whose targets are returns: then it is a note.

    ## Why it matters
    A new network predicts about zero. Gradients of a squared error are as large as the targets, and steps that suit
    them throw the network off; steps that do not take the whole run to reach the mean, before anything is learned.

    ## What to try
    Standardise the targets by mean and standard deviation of the training data, and undo it for predictions. Or set
    the bias of the last layer to the mean, or predict the logarithm.

    ## Options
    - `size` (20, magnitude of the targets): standardised targets stay below 5, those with outliers below 13.
    - `least` (0.1, magnitude of the targets): smaller ones, beside first predictions that are `factor` times as large.
    - `factor` (5, times the first predictions).
    - `off` (0.25, share of the range of the targets).
    - `share` (0.1, share of the run): calibrated, standardised targets are reached within the first steps.
    - `stride` (1, update over weight): calibrated, with standardised targets the first steps were 0.01 to 0.2.

    ## References
    - TheDeepChecker's check of targets looks at them alone; it fires on one in six healthy trainings.
    """

    code: ClassVar[str] = "DAT002"
    name: ClassVar[str] = "unnormalised-targets"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", *_COLUMNS)}
    explains: ClassVar[tuple[str, ...]] = (
        "NUM001", "LOS001", "LOS002", "LOS003", "LOS004", "STP001", "STP002", "STP005", "GRD001", "GRD002", "UPD001",
        "UPD004", "ACT001", "ACT002", "CUR001",
    )  # fmt: skip

    size: float = 20.0
    """Magnitude of the targets."""
    least: float = 0.1
    """Magnitude of the targets."""
    factor: float = 5.0
    """Magnitude of the targets over that of the first predictions, or the reverse."""
    off: float = 0.25
    """Share of the range of the targets."""
    share: float = 0.1
    """Share of the run."""
    stride: float = 1.0
    """Update norm over parameter norm, the median over the layers."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the loss is now of one model, now of another")
        if loss_name(run) not in _REGRESSION:
            raise NotApplicable("the loss is none of a regression")
        if run.attempts[0].first_step != 0:
            raise NotApplicable("the run continues another one, whose first predictions are not known")
        fit = _fit(run, self.off)
        if fit is None:
            raise NotApplicable("predictions and targets with finite values were seen at fewer than five probes")
        progress, phase, broke = measured(run), phases(run), broken(run)
        if progress is None and broke is None and not without_floor(run):
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")
        if 0 < fit.size < self.least and fit.first > self.factor * fit.size:
            outcome = "the run began by shrinking its predictions to that"
            yield self._finding(run, fit, outcome, self.least, lasting=False)
            return
        if fit.size <= self.size or fit.size <= self.factor * fit.first:
            return
        if fit.moving:
            raise NotApplicable("the range of the targets grows: they are made by a model, and cannot be scaled once")
        damage = harm(run, progress, phase) if progress and phase else None
        outcome = self._outcome(run, fit, damage, broke)
        if not outcome and progress and progress.learned < 0.95:
            outcome = self._stride(run)
        if outcome:
            lasting = not outcome.startswith(("it took", "the first steps"))
            yield self._finding(run, fit, outcome, self.size, lasting=lasting)

    def _outcome(self, run: Run, fit: _Fit, damage: Harm | None, broke: int | None) -> str:
        """What became of the training, in words; "" if it did not suffer."""
        if broke is not None:
            return f"the loss or a gradient is not finite from step {count(broke)} on"
        if damage is not None and not damage.recovered:
            return f"the loss was thrown off (from {number(damage.start)} to {number(damage.level)})"
        first, last = run.first_step or 0, run.last_step or 0
        if fit.off > self.off:
            return f"at the end their middle is {percent(fit.off)} of the range of the targets away"
        if fit.spread < 0.5 and fit.growing:
            return f"at the end they spread over {percent(fit.spread)} of the range of the targets, and still grow"
        if fit.way is not None and fit.way - first > max(20, self.share * (last - first + 1)):
            return f"it took until step {count(fit.way)} to reach the middle of the targets"
        return ""

    def _stride(self, run: Run) -> str:
        """How far the first steps threw the layers; "" if they kept near their initialisation, or there is only one."""
        first = update_ratios(run).filter(pl.col("step") < (run.first_step or 0) + 10)
        ratio = scalar(first["median"].max())
        if len(weights(run)) < 2 or not ratio > self.stride:
            return ""
        return f"the first steps moved the median layer by up to {percent(ratio)} of its norm"

    def _finding(self, run: Run, fit: _Fit, outcome: str, threshold: float, *, lasting: bool) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            severity="note" if without_floor(run) else self.severity if lasting else "warning",
            message=f"The targets reach from {number(fit.low)} to {number(fit.high)}, the first predictions were at"
            f" most {number(fit.first, 3)}, and {outcome}.",
            confidence=0.93 if lasting else 0.8,
            first_step=run.first_step,
            last_step=run.last_step if fit.way is None else fit.way,
            value=fit.size,
            threshold=threshold,
            evidence=_evidence(run, fit, self.off),
            causes=("Targets in their own units, not standardised",),
            advice=(
                "Standardise the targets by mean and standard deviation of the training data; undo it for predictions.",
                "Or set the bias of the last layer to the mean of the targets.",
                "Predict the logarithm of targets that span several powers of ten.",
            ),
            chart=ChartRef("steps", "prediction_max", reference=fit.high),
        )


def _fit(run: Run, near: float) -> _Fit | None:
    frame = run.frame("steps", *_COLUMNS).drop_nulls()
    frame = frame.filter(pl.all_horizontal(pl.col(_COLUMNS).is_finite()))
    if frame.height < 5:
        return None
    low, high = scalar(frame["target_min"].min()), scalar(frame["target_max"].max())
    width = max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-300)  # constant targets have no range
    middle = (pl.col("prediction_min") + pl.col("prediction_max") - pl.col("target_min") - pl.col("target_max")) / 2
    table = frame.select(
        "step",
        off=middle.abs() / width,
        spread=(pl.col("prediction_max") - pl.col("prediction_min")) / width,
        size=pl.max_horizontal(pl.col("prediction_min").abs(), pl.col("prediction_max").abs()),
    )
    smooth = table.with_columns(pl.col("off").rolling_median(5, min_samples=1))
    away = smooth.filter(pl.col("off") > near)["step"]
    back = smooth.filter(pl.col("step") > (away[-1] if len(away) else -1))["step"]
    quarter = max(1, table.height // 4)
    end, before = table.tail(quarter), table.slice(quarter, quarter)
    spread = scalar(end["spread"].median())
    reach = frame.select(pl.max_horizontal(pl.col("target_min").abs(), pl.col("target_max").abs())).to_series()
    return _Fit(
        low=low,
        high=high,
        first=scalar(table["size"][0]),
        way=int(back[0]) if len(back) else None,
        off=scalar(end["off"].median()),
        spread=spread,
        growing=spread > 1.2 * scalar(before["spread"].median()),
        moving=scalar(reach.tail(quarter).median()) > 2 * scalar(reach.head(quarter).median()),
    )


def _evidence(run: Run, fit: _Fit, near: float) -> Evidence:
    if max(fit.off, fit.spread) > 10:
        return Evidence(("At the end the predictions are far beyond all targets.",))
    told = f"At the end the middle of the predictions is {percent(fit.off)} of the range of the targets away."
    supporting, opposing = ([told], []) if fit.off > near else ([], [told])
    if fit.way is not None and fit.way > (run.first_step or 0):
        supporting.append(f"It came near, for good, at step {count(fit.way)} of {count(run.step_count)}.")
    (supporting if fit.spread < 0.5 else opposing).append(
        f"Their spread at the end is {percent(fit.spread)} of the range of the targets."
    )
    return Evidence(tuple(supporting), tuple(opposing))
