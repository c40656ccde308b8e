"""LOS002: a loss that ended far above what it had been."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import Mean, batch_mean, block_length, blocks, scalar, slope
from ..overshoot import starting_level, sudden
from ..phases import phases
from ..progress import adversarial, losses, measured
from ..run import Run
from ..wording import count, number
from .base import Detector


@dataclass(frozen=True)
class _End:
    """Where the loss began, was best and ended; `level`: that of a model that knows nothing, or of the start."""

    start: float
    best: float
    best_step: int
    end: Mean
    level: float
    level_name: str
    onset: int


@dataclass(frozen=True)
class Diverged(Detector):
    """The loss ended far above what it had been, and did not come back.

    ## What it does
    Compares the mean loss of the last tenth of the run with the best block of steps and with the loss of a model that
    knows nothing (the first loss, where that is not known). The run has diverged if it ends significantly, and by a
    fifth, above that level and above where it was best; or if it had lost half of it and is back at nine tenths; or, as
    a warning, if it had lost four fifths, is back at half, and is not falling. It must have lasted for a tenth of the
    run. A rise after which the loss falls again (harder data, a restart of the learning rate) is none, and batches of a
    few steps never decide.

    ## Why it matters
    What was learned is gone: the weights of the end are worth less than those before. It is a symptom: other rules name
    the cause where they can.

    ## What to try
    Go back to a checkpoint before the onset. Look at what happened right there: a larger rate, growing gradients, other
    data. Lower the rate, clip the gradient norm, check the sign of the loss.

    ## Options
    - `rise` (1.2, times the level): calibrated with STP001; blocks of healthy trainings stayed below 1.02.
    - `errors` (4 standard errors, by batch means).
    - `back` (0.9, share of the level): a model that knows next to nothing again.
    - `steps` (100 steps): fewer prove nothing.

    ## References
    - TheDeepChecker takes twice the smallest loss, llm-foundry a window that lies above the first one.
    """

    code: ClassVar[str] = "LOS002"
    name: ClassVar[str] = "diverged"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "LOS005")

    rise: float = 1.2
    """Times the level."""
    errors: float = 4.0
    """Standard errors."""
    back: float = 0.9
    """Share of the level."""
    steps: int = 100
    """Steps with a finite loss."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the loss does not have to fall")
        series = losses(run)
        if series.height < self.steps:
            raise NotApplicable(f"{series.height} steps with a finite loss are too few; {self.steps} are needed")
        found = _end_of(run, series)
        if found is None:
            raise NotApplicable("the loss takes negative values: where it should end is not known")
        severity = self._verdict(series, found)
        phase = phases(run)
        lasting = found.onset <= int(series["step"][-series.height // 10])
        restarted = phase is not None and any(
            rise > int(series["step"][-1]) - series.height // 5 for rise in phase.rises
        )
        if severity is not None and lasting and not restarted:
            yield self._finding(run, series, found, severity)

    def _verdict(self, series: pl.DataFrame, found: _End) -> Severity | None:
        """How grave it is; None if the run did not diverge."""
        surely = found.end.value - self.errors * found.end.error
        if surely > self.rise * max(found.level, min(found.best, found.start)):
            return self.severity
        if found.best <= 0.5 * found.level and surely > self.back * found.level:
            return self.severity
        if found.best <= 0.2 * found.level and surely > 0.5 * found.level:
            since = series.filter(pl.col("step") >= found.onset)
            trend = slope(since["step"], since["loss"])
            return None if trend.value < -3 * trend.error else "warning"
        return None

    def _finding(self, run: Run, series: pl.DataFrame, found: _End, severity: Severity) -> Finding:
        end = number(found.end.value)
        course = f"It had been {number(found.best)} around step {count(found.best_step)}"
        if found.best > 0.9 * found.level:
            course = "It never was lower"
        jumped = sudden(run, found.onset)
        causes = (
            "Data that changed: other inputs, other labels, a loader that broke",
            "A learning rate that is too large, or that rose",
            "Gradients that grew without bound",
            "A flipped sign in the loss or in the optimizer",
        )
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"The loss ended at {end}, {number(found.end.value / found.level, 3)} times {found.level_name}"
            f" ({number(found.level)}). {course}, and rose from step {count(found.onset)} on.",
            confidence=0.95 if severity == "error" else 0.7,
            first_step=found.onset,
            last_step=int(series["step"][-1]),
            value=found.end.value / found.level,
            threshold=self.rise if found.end.value > self.rise * found.level else self.back,
            evidence=_evidence(run, found, jumped=jumped),
            causes=causes if jumped else (*causes[1:], causes[0]),
            advice=(
                "Go back to a checkpoint from before the onset.",
                "Look at the batches right before and after it.",
                "Lower the learning rate by a factor of 3, and clip the gradient norm.",
            ),
            chart=ChartRef("steps", "loss", reference=found.level),
        )


def _end_of(run: Run, series: pl.DataFrame) -> _End | None:
    progress = measured(run)
    if progress is None or not progress.start > 0:
        return None
    means = blocks(series, "loss", block_length(series.height))
    best = means.row(means["mean"].arg_min() or 0, named=True)
    tail = series["loss"].tail(max(20, series.height // 10))
    # A few batches out of line move a mean, but not the median of blocks.
    middle = scalar(means.filter(pl.col("last_step") >= series["step"][-tail.len()])["mean"].median())
    mean = batch_mean(tail)
    start, _ = starting_level(run, series)
    level, name = (
        (progress.zero.prior, progress.zero.name) if progress.zero else (max(start, progress.start), "the start")
    )
    halfway = (best["mean"] + middle) / 2
    after = series.filter((pl.col("step") > best["last_step"]) & (pl.col("loss") > halfway))
    onset = int(after["step"][0]) if after.height and best["mean"] < 0.9 * level else int(series["step"][0])
    end = Mean(min(mean.value, middle), mean.error)
    return _End(start, float(best["mean"]), int(best["first_step"]), end, level, name, onset)


def _evidence(run: Run, found: _End, *, jumped: bool) -> Evidence:
    supporting = [f"The mean of the last tenth is {number(found.end.value)} ± {number(found.end.error, 2)}."]
    opposing: list[str] = []
    if jumped:
        supporting.append("It jumped from one step to the next, and no larger gradient than usual came before.")
    supporting += _changed_input(run, found.onset)
    norms = run.frame("steps", "grad_norm").filter(pl.col("grad_norm").is_finite())
    before = scalar(norms.filter(pl.col("step") < found.onset)["grad_norm"].tail(1000).median())
    after = scalar(norms.filter(pl.col("step") >= found.onset)["grad_norm"].median())
    if before > 0 and after > 3 * before:
        supporting.append(f"The gradient norm rose from {number(before)} to {number(after)} (medians).")
    phase = phases(run)
    if phase is not None and any(found.onset - 100 <= rise <= found.onset for rise in phase.rises):
        supporting.append("The learning rate had risen within the hundred steps before.")
    return Evidence(tuple(supporting), tuple(opposing))


def _changed_input(run: Run, onset: int) -> list[str]:
    """A sentence if the spread of the model's input changed with the onset."""
    frame = run.frame("steps", "input_std").drop_nulls()
    before, after = (
        frame.filter(pl.col("step") < onset)["input_std"].tail(5),
        frame.filter(pl.col("step") >= onset)["input_std"].head(5),
    )
    if before.is_empty() or after.is_empty():
        return []
    old, new = scalar(before.median()), scalar(after.median())
    changed = not 0.7 < new / old < 1.4 if old > 0 else new > 0
    told = f"The standard deviation of the input changed with it, from {number(old, 3)} to {number(new, 3)}."
    return [told] if changed else []
