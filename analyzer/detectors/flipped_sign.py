"""DAT006: a loss that is ascended, because it was negated or the optimizer maximises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import polars as pl

from ..depth import update_ratios
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..loss_inputs import loss_calls, ranges
from ..noise import Mean, batch_mean, block_length, blocks, scalar
from ..overshoot import starting_level
from ..own_terms import OwnTerms, own_terms
from ..phases import phases
from ..progress import adversarial, logit_span, loss_name, losses
from ..run import Run
from ..validation import Metric, directed
from ..wording import number, percent
from .base import Detector

_NEVER_NEGATIVE = frozenset(
    {
        "bce", "bcewithlogits", "binarycrossentropy", "binarycrossentropywithlogits", "crossentropy", "huber", "l1",
        "mse", "smoothl1",
    }
)  # fmt: skip
"""Losses that are zero at best: who ascends them, or negates them, does not mean it."""


@dataclass(frozen=True)
class FlippedSign(Detector):
    """The training goes uphill: the loss is negated, or the optimizer maximises it.

    ## What it does
    Judges losses that are zero at best (cross-entropies, squared and absolute errors), as they were called. *Negated:*
    what is differentiated is negative from the first step on; and it began at minus the loss of uniform predictions, or
    fell to five times its start. *Ascended:* it is not negative, and rises from the start; and an optimizer has
    `maximize=True`, or most updates lead along the gradient (their slope is positive), or the loss rises in nearly
    every block though no layer moves by more than 2 % a step, which is no step too large. Losses that are negative by
    nature (policies, critics, bounds, densities) are judged by what was logged beside them: a reward or another metric
    for which more is better, and which falls from the first fifth of the run to the last, or was best at first and ends
    at nothing. One whose call was not seen is also a finding if it is negative from the start and falls a thousandfold.
    So is a term beside a loss that was called, if it is negative, falls all the time and thirtyfold at last, while the
    loss that was called gets worse: what should be held down is driven up.

    ## Why it matters
    The better it seems to go, the worse the model becomes; in the end something overflows.

    ## What to try
    Remove the minus sign, or `maximize=True`. A likelihood is maximised by minimising its negative logarithm, once.

    ## Options
    - `fall` (5, times the first loss): how far a negated loss of unknown level must fall. A guess.
    - `bottom` (1000, times the first loss): the same for a loss whose call was not seen. A guess.
    - `growth` (30, times its value in the second fifth of the run): the same for a term beside the loss. Terms with the
      right sign (penalties, divergences) were not negative at all in calibration; wrong ones grew 80 times and more.
    - `uphill` (0.8, share of the updates): by definition none should; momentum overshoots now and then.
    - `ratio` (0.02, update over weight): steps that are too large move layers by more. Calibrated with STP001.
    - `rise` (1.05, times the first loss).
    - `values` (5 in a fifth of the run): with fewer a metric shows no trend. `stride` (0.3, update over weight): larger
      steps make a metric fall without any wrong sign.
    - `nothing` (0.1, share of the first value of a metric): a guess.

    ## References
    - TheDeepChecker's mutation flipped_sign. Full Stack Deep Learning, Troubleshooting: a loss that goes up.
    """

    code: ClassVar[str] = "DAT006"
    name: ClassVar[str] = "flipped-sign"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = (
        "NUM001", "LOS001", "LOS002", "LOS003", "LOS004", "LOS005", "LOS006", "STP001", "GRD001", "GRD002", "UPD001",
        "UPD004", "ACT001", "ACT002", "DAT002", "DAT007", "GEN001", "GEN003",
    )  # fmt: skip

    fall: float = 5.0
    """Times the first loss."""
    bottom: float = 1000.0
    """Times the first loss."""
    growth: float = 30.0
    """Times the term early in the run."""
    uphill: float = 0.8
    """Share of the updates."""
    ratio: float = 0.02
    """Update norm over parameter norm."""
    rise: float = 1.05
    """Times the first loss."""
    values: int = 5
    """Values of a metric in a fifth of the run."""
    stride: float = 0.3
    """Update norm over parameter norm."""
    nothing: float = 0.1
    """Share of the first value of a metric."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: one may ascend what another descends")
        series = losses(run)
        if series.height < 2:
            raise NotApplicable("fewer than two steps have a finite loss")
        terms = own_terms(run)
        if terms is not None and terms.runs_away(self.growth):
            yield self._finding(series, "a term beside the loss is subtracted", [_parted(terms)], 0.9)
            return
        negative = scalar((series["loss"] < 0).mean())
        mixed = 0 < negative < 0.95 or (series["loss"][0] < 0) != (negative > 0)  # it holds more than what was called
        if mixed or not _never_negative(run):
            yield from self._of_unknown_loss(run, series)
            return
        found = self._negated(run, series) if negative else self._ascended(run, series)
        if found is not None:
            cause, evidence, confidence = found
            yield self._finding(series, cause, evidence, confidence)

    def _of_unknown_loss(self, run: Run, series: pl.DataFrame) -> Iterator[Finding]:
        if self._bottomless(run, series):
            told = f"The loss was negative from the start, and fell to {number(self.bottom)} times that."
            yield self._finding(series, "the loss has no floor", [told], 0.7)
        elif metric := next(filter(partial(self._shunned, run), directed(run)), None):
            first, last = float(metric.values["value"][0]), float(metric.values["value"][-1])
            told = f"{metric} gets worse from the start, from {number(first)} to {number(last)}, by moderate steps."
            yield self._finding(series, f"{metric} is driven the wrong way", [told], 0.85)
        elif metric := next(filter(partial(self._spoiled, run, series), directed(run)), None):
            first, last = float(metric.values["value"][0]), float(metric.values["value"][-1])
            told = f"The loss falls, and {metric} falls with it, from {number(first)} at first to {number(last)}."
            yield self._finding(series, f"{metric} is driven to nothing", [told], 0.75)
        else:
            raise NotApplicable("the loss is not one that is known to be zero at best, and no metric gets ever worse")

    def _shunned(self, run: Run, metric: Metric) -> bool:
        """Whether a metric for which more is better falls from the start to the end, though the steps are small."""
        values = metric.costs
        if values.height < 5 * self.values or metric.falls:
            return False
        fifth = values.height // 5
        means = [batch_mean(values["value"].slice(i * fifth, fifth)) for i in range(5)]
        worse = all(later.value > earlier.value for earlier, later in pairwise(means)) and means[4].exceeds(means[0], 6)
        return worse and scalar(update_ratios(run)["median"].max()) < self.stride

    def _spoiled(self, run: Run, series: pl.DataFrame, metric: Metric) -> bool:
        """Whether a metric for which more is better was best at first and ends at nothing, while the loss falls."""
        values, (start, noise) = metric.values["value"], starting_level(run, series)
        if metric.falls or len(values) < self.values or not values[0] > 0 or not _last(series) < start - 3 * noise:
            return False
        first, best, last = (scalar(found) for found in (values[0], values.max(), values.tail(3).max()))
        return best <= 1.2 * first and last <= self.nothing * first

    def _bottomless(self, run: Run, series: pl.DataFrame) -> bool:
        """Whether a loss that was not seen, and is negative from the start, falls beyond all measure."""
        first = float(series["loss"][0])
        return (
            not loss_name(run)
            and first < 0
            and scalar(series["loss"].max()) < 0
            and _last(series) < self.bottom * first
        )

    def _negated(self, run: Run, series: pl.DataFrame) -> tuple[str, list[str], float] | None:
        first, last = float(series["loss"][0]), _last(series)
        shape = next((call.prediction for call in loss_calls(run)), None)
        classes = shape[min(1, len(shape) - 1)] if shape and loss_name(run) in ("crossentropy", "nll") else 2
        span, name = logit_span(run), loss_name(run)
        uniform = math.log(classes) if classes > 1 and span is not None else math.nan
        if not last < first:  # negated and maximised, or a run that goes nowhere
            return None
        seen = f"{name} is never negative, yet what is differentiated begins at {number(first)}"
        if span is not None and abs(-first - uniform) <= span + 0.01:
            return "the loss is negated", [f"{seen}: minus the loss of predictions that know nothing."], 0.96
        if last < self.fall * first:
            return "the loss is negated", [f"{seen}, and falls to {number(last)}."], 0.9
        return None

    def _ascended(self, run: Run, series: pl.DataFrame) -> tuple[str, list[str], float] | None:
        start, noise = starting_level(run, series)
        end = batch_mean(series["loss"].tail(max(1, series.height // 4)))
        limit = max(self.rise * start, start + 3 * noise)
        if not end.value > limit:
            return None
        if any(group.options.get("maximize") is True for group in run.groups):
            return "the optimizer has maximize=True", ["The options of the optimizer say maximize=True."], 0.97
        slopes = run.frame("steps", "start_slope").filter(pl.col("start_slope").is_finite())["start_slope"]
        if len(slopes) >= 10:
            share = scalar((slopes > 0).mean())
            told = f"{percent(share)} of {len(slopes)} updates lead along the gradient, that is uphill."
            return ("the updates lead uphill", [told], 0.93) if share > self.uphill else None
        return self._creeping_up(run, series, end)

    def _creeping_up(self, run: Run, series: pl.DataFrame, end: Mean) -> tuple[str, list[str], float] | None:
        """Where no slope was recorded: a loss that rises all the time by small steps."""
        length = block_length(series.height) if series.height >= 100 else max(1, series.height // 5)
        means = blocks(series, "loss", length)["mean"]
        rising = scalar((means.diff().drop_nulls() > 0).mean())
        largest = scalar(update_ratios(run).head(50)["median"].max())
        phase = phases(run)
        warm = phase is not None and phase.warmed_up
        if not (rising > 0.9 and len(means) >= 4 and largest < self.ratio) or warm or not math.isfinite(end.value):
            return None
        told = f"The loss rises in {percent(rising)} of the blocks, while no layer moves by more than"
        return "the loss is ascended by small steps", [f"{told} {percent(largest)} a step."], 0.75

    def _finding(self, series: pl.DataFrame, cause: str, evidence: list[str], confidence: float) -> Finding:
        start, end = float(series["loss"][0]), _last(series)
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The training goes uphill: {cause}, and it went from {number(start)} to {number(end)}.",
            confidence=confidence,
            first_step=int(series["step"][0]),
            last_step=int(series["step"][-1]),
            value=end,
            threshold=start,
            evidence=Evidence(tuple(evidence)),
            causes=("A minus sign before the loss", "maximize=True", "Gradients whose sign was turned before the step"),
            advice=(
                "Remove the minus sign, or maximize=True: optimizers descend.",
                "Check that the loss of one repeated batch falls.",
            ),
            chart=ChartRef("steps", "loss"),
        )


def _never_negative(run: Run) -> bool:
    """Whether the loss is zero at best: nll_loss is where it is given logarithms of probabilities, as it should be."""
    if loss_name(run) != "nll":
        return loss_name(run) in _NEVER_NEGATIVE
    given = ranges(run)
    return not given.is_empty() and scalar(given["high"].max()) <= 1e-3


def _parted(terms: OwnTerms) -> str:
    own, part = (f"{number(values[1])} to {number(values[-1])}" for values in (terms.own, terms.part))
    return f"What the loss holds beside the loss that was called went from {own}, and that one from {part}."


def _last(series: pl.DataFrame) -> float:
    """The median loss of the last tenth of the steps."""
    return scalar(series["loss"].tail(max(1, series.height // 10)).median())
