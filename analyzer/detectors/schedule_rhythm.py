"""STP004: a learning-rate schedule that is stepped at the wrong rhythm, or has other surprises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import batch_mean, scalar
from ..overshoot import harm
from ..pace import did_well, fallen, last_quarters, still_falling
from ..phases import phases
from ..progress import Progress, adversarial, losses, measured
from ..run import Run
from ..schedule import change_interval, cycles, decay, epoch_count, epoch_length, rates
from ..wording import count, number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class ScheduleRhythm(Detector):
    """The learning rate does what nobody plans: the scheduler is stepped at the wrong rhythm, or its numbers are off.

    ## What it does
    Looks at the recorded rates for five surprises. *Stepped too often:* the rate fell a millionfold, by more than one
    drop an epoch (or at every step, where the epochs are not known), and most of the run was spent below a thousandth
    of its peak. *Zero:* it was zero before the run was nearly over. *A warm-up that never ends:* it was still rising at
    the last step. *Cycles:* it went down and up again so often that a cycle is shorter than an epoch. *A jump on
    resuming:* a resumed run goes on at ten times the rate or more. Only a jump of the loss makes that last one a
    finding, and for the others the training must have got on badly: learned little, or still be falling at the end. Of
    a training that got on well, a warm-up that never ended is worth a note.

    ## Why it matters
    A schedule that counts epochs and is stepped at every batch is over within the first epoch; one that counts batches
    and is stepped once an epoch never leaves its warm-up. Neither raises an exception.

    ## What to try
    Step the scheduler where its numbers say: schedules with `T_max`, `step_size` or milestones in epochs after each
    epoch, one-cycle and warm-up schedules after each optimizer step. Save and load its state with the model's. Print
    the rate at the start of each epoch.

    ## Options
    - `collapse` (1e-06, of the peak): no schedule is meant to end so low.
    - `zero` (0.02, share of the run): steps at a rate of zero; schedules that end at zero reach it at the last steps.
    - `cycles` (8 cycles): fewer are a plan.
    - `jump` (10, times the rate before).
    - `learned` (0.9, share of what there was to learn): above it no schedule was at fault.

    ## References
    - PyTorch, torch.optim: how to adjust learning rate. Smith 2017 on cyclical rates.
    """

    code: ClassVar[str] = "STP004"
    name: ClassVar[str] = "schedule-rhythm"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "lr")}
    explains: ClassVar[tuple[str, ...]] = ("STP003", "STP002", "LOS001")

    collapse: float = 1e-6
    """Share of the peak rate."""
    zero: float = 0.02
    """Share of the run."""
    cycles: int = 8
    """Cycles of the rate."""
    jump: float = 10.0
    """Times the rate before."""
    learned: float = 0.9
    """Share of what there was to learn."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, of the first surprise that did harm."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: whether they get on does not show in the loss")
        series, progress = rates(run), measured(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")
        if series.height < 50 or not scalar(series["lr_max"].max()) > 0:
            raise NotApplicable("fewer than 50 steps have a learning rate, or it is always zero")
        if (jump := self._resumed(run, series)) is not None:
            yield jump
            return
        if did_well(progress) or (share := _share(progress)) >= self.learned:
            rising = self._rising(run, series)
            if rising is not None:
                yield replace(rising, severity="note", evidence=_with_loss(rising.evidence, run, progress))
            return
        surprises = (self._zero, self._collapsed, self._rising, self._cycling)
        found = next((finding for judge in surprises if (finding := judge(run, series)) is not None), None)
        if found is not None and (share < 0.5 or _in_motion(run)):
            severity = self.severity if share < 0.5 and found.severity == "error" else "warning"
            yield replace(found, severity=severity, evidence=_with_loss(found.evidence, run, progress))

    def _collapsed(self, run: Run, series: pl.DataFrame) -> Finding | None:
        """A rate that fell a millionfold, by more than one drop an epoch."""
        found, interval, epoch = decay(run, 1e-3), change_interval(run), epoch_length(run)
        if found is None or interval is None or found.rest < 0.5 or found.final > self.collapse * found.peak:
            return None
        if interval > (1 if epoch is None else epoch / 2):
            return None
        often = "at every step" if interval == 1 else f"every {count(round(interval))} steps"
        beside = f"; an epoch has {count(round(epoch))}" if epoch else ""
        return self._finding(
            f"The learning rate fell {often}{beside}: from {number(found.peak)} to a thousandth of it by step"
            f" {count(found.step)}, and to {number(found.final)} at the end.",
            steps=(found.step, run.last_step),
            value=found.final / found.peak,
            threshold=self.collapse,
            evidence=(f"{percent(found.rest)} of the run has a rate below a thousandth of the peak.",),
            causes=("The scheduler is stepped at every batch, and counts epochs", "A decay factor that is too small"),
            advice=("Call scheduler.step() once an epoch, or give the schedule its numbers in batches.",),
        )

    def _zero(self, run: Run, series: pl.DataFrame) -> Finding | None:
        """A rate of zero while there was time left."""
        rate = pl.col("lr_max")  # a cycle may touch zero, for one step
        zero = series.filter((rate == 0) & (rate.shift() == 0) & (pl.int_range(pl.len()) >= series.height // 100))
        share = zero.height / series.height
        if share <= self.zero:
            return None
        first, last = int(zero["step"][0]), int(zero["step"][-1])
        return self._finding(
            f"The learning rate is zero at {percent(share)} of the steps, from step {count(first)} on.",
            steps=(first, last),
            value=share,
            threshold=self.zero,
            evidence=(f"{count(zero.height)} steps changed nothing.",),
            causes=(
                "The schedule was given fewer steps than the training has",
                "A scheduler that is stepped more often than its length assumes (micro-batches, several workers)",
            ),
            advice=("Give the schedule the number of times that it will be stepped.",),
        )

    def _rising(self, run: Run, series: pl.DataFrame) -> Finding | None:
        """A warm-up that was not over when the run ended. Where the loss suffered, the rate is rather too large."""
        progress, phase = measured(run), phases(run)
        if progress is None or phase is None or harm(run, progress, phase) is not None:
            return None
        rate = series["lr_max"]
        changes = rate.diff().drop_nulls()
        rising = changes > 0
        last = rising.arg_true()
        if (changes < 0).any() or last.is_empty() or last[-1] < 0.9 * len(changes) or rate[-1] < 1.2 * rate[0]:
            return None
        stairs = len(last) < len(changes) / 2
        how = "once an epoch or so" if stairs else "at every step"
        causes = (
            "A warm-up of more steps than the training has",
            "A schedule that counts batches, stepped once an epoch",
        )
        return self._finding(
            f"The learning rate was still rising when the run ended: from {number(rate[0])} to {number(rate[-1])},"
            f" {how}.",
            steps=(run.first_step, run.last_step),
            value=1.0,
            threshold=0.9,
            evidence=(f"It rose {plural(len(last), 'time')} and never fell.",),
            causes=causes[::-1] if stairs else causes,
            advice=("Warm up over a few per cent of the training.", "Step the scheduler after each optimizer step."),
        )

    def _cycling(self, run: Run, series: pl.DataFrame) -> Finding | None:
        """A rate that goes down and up again within less than an epoch."""
        number_of, epoch, epochs = cycles(run), epoch_length(run), epoch_count(run)
        if number_of < (self.cycles if epoch else 3 * self.cycles):
            return None
        length = series.height / number_of
        as_many = epochs is not None and abs(length / 2 - epochs) <= max(1.0, 0.1 * epochs)
        if epoch is not None and length > epoch and not as_many:
            return None
        told = f"Half a cycle takes {number(length / 2, 3)} steps"
        evidence = (f"{told}, as many as there were epochs ({count(epochs)}).",) if as_many else (f"{told}.",)
        finding = self._finding(
            f"The learning rate went down and up again {count(number_of)} times, once in {number(length, 3)} steps.",
            steps=(run.first_step, run.last_step),
            value=float(number_of),
            threshold=float(self.cycles),
            evidence=evidence,
            causes=("A cosine schedule that counts epochs, stepped at every batch", "Cycles that are too short"),
            advice=("Call scheduler.step() once an epoch, or give T_max in batches.",),
        )
        return replace(finding, severity="warning")

    def _resumed(self, run: Run, series: pl.DataFrame) -> Finding | None:
        """A rate that jumped up where the run was resumed, and a loss that rose with it."""
        for attempt in run.attempts[1:]:
            before = series.filter(pl.col("step") < attempt.first_step)
            after = series.filter(pl.col("step") >= attempt.first_step)
            if before.is_empty() or after.is_empty() or not after["lr_max"][0] >= self.jump * before["lr_max"][-1] > 0:
                continue
            loss = losses(run)
            earlier = batch_mean(loss.filter(pl.col("step") < attempt.first_step)["loss"].tail(50))
            later = batch_mean(loss.filter(pl.col("step") >= attempt.first_step)["loss"].head(50))
            if not later.exceeds(earlier, 3) or later.value < 1.2 * earlier.value:
                continue
            factor = after["lr_max"][0] / before["lr_max"][-1]
            finding = self._finding(
                f"Where the run was resumed, at step {count(attempt.first_step)}, the learning rate jumped from"
                f" {number(before['lr_max'][-1])} to {number(after['lr_max'][0])}, and the loss rose from"
                f" {number(earlier.value)} to {number(later.value)}.",
                steps=(attempt.first_step, attempt.first_step),
                value=factor,
                threshold=self.jump,
                evidence=(f"The rate is {number(factor, 3)} times that of the step before.",),
                causes=("The state of the scheduler was not saved, or not loaded",),
                advice=("Save and load scheduler.state_dict() with the model and the optimizer.",),
            )
            return replace(finding, severity="warning")
        return None

    def _finding(
        self,
        message: str,
        *,
        steps: tuple[int | None, int | None],
        value: float,
        threshold: float,
        evidence: tuple[str, ...],
        causes: tuple[str, ...],
        advice: tuple[str, ...],
    ) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=message,
            confidence=0.93,
            first_step=steps[0],
            last_step=steps[1],
            value=value,
            threshold=threshold,
            evidence=Evidence(evidence),
            causes=causes,
            advice=(*advice, "Print the rate at the start of each epoch, and compare it with the schedule meant."),
            chart=ChartRef("steps", "lr"),
        )


def _share(progress: Progress) -> float:
    """What was learned, of what there was to learn or else of the first loss."""
    return progress.learned if progress.zero else fallen(progress)


def _in_motion(run: Run) -> bool:
    """Whether the loss was still falling at the end, by a tenth in the last quarter."""
    before, end = last_quarters(run)
    return still_falling(run) and end.value < 0.9 * before.value


def _with_loss(evidence: Evidence, run: Run, progress: Progress) -> Evidence:
    """The same evidence with what the loss has to say."""
    told = f"The loss went from {number(progress.start)} to {number(progress.end.value)}"
    falling = ", and was still falling at the end" if still_falling(run) else ""
    share = _share(progress)
    beside = (f"{told}{falling}.",)
    if share >= 0.5:
        return Evidence(evidence.supporting, (*evidence.opposing, *beside))
    return Evidence((*evidence.supporting, *beside), evidence.opposing)
