"""RUN004: the training stood still for a good part of its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..run import Run
from ..wording import count, duration, number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class ThroughputStalls(Detector):
    """The training waited: several steps in a row took far longer than the steps around them.

    ## What it does
    Takes the time from the start of one step to the start of the next, so that waiting for data counts, and compares it
    with the running median of the steps around; probed steps are compared among themselves, as their cost is the
    recorder's. A stall is at least `steps` steps in a row that took `factor` times the median. Stalls are a finding if
    they cost `share` of the time and `lost` seconds. Single long steps are none: validation, checkpoints and the start
    of an epoch look like that. The first steps, and those at which something was evaluated or logged, are left out.

    ## Why it matters
    The hardware is paid for while it waits.

    ## What to try
    Look at what runs beside the training: the data loader (workers, prefetching, a slow or remote disk), the
    garbage collector, other processes on the machine, swapping.

    ## Options
    - `factor` (5 times the running median): a guess. SageMaker Debugger's StepOutlier has 3 standard deviations, which
      every training exceeds.
    - `pause` (0.15 seconds a step): calibrated. A busy machine sets every process aside for shorter times.
    - `steps` (4 steps in a row): calibrated. Healthy are single ones, and on busy machines up to three.
    - `share` (0.1 of the time): a guess.
    - `lost` (1 second): less is not worth a word. A guess.
    - `start` (10 steps): compilers, caches and workers warm up.
    - `window` (101 steps): of the running median.

    ## References
    - SageMaker Debugger: StepOutlier, StalledTrainingRule.
    """

    code: ClassVar[str] = "RUN004"
    name: ClassVar[str] = "throughput-stalls"
    severity: ClassVar[Severity] = "warning"
    requires: ClassVar = {"steps": ("time",)}
    about_training: ClassVar[bool] = False

    factor: float = 5.0
    """Times the running median."""
    pause: float = 0.15
    """Seconds a step."""
    steps: int = 4
    """Steps in a row."""
    share: float = 0.1
    """Share of the time."""
    lost: float = 1.0
    """Seconds."""
    start: int = 10
    """Steps."""
    window: int = 101
    """Steps."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, over all stalls."""
        periods = _periods(run, self.window).slice(self.start)
        if periods.height < 5 * self.steps:
            raise NotApplicable(f"the times of {5 * self.steps} steps after the start are needed")
        stalls = self._stalls(periods)
        lost = scalar(stalls["lost"].sum())
        total = lost + scalar(periods["plain"].sum())
        if stalls.is_empty() or lost < max(self.lost, self.share * total):
            return
        yield self._finding(run, stalls, periods, lost, total)

    def _stalls(self, periods: pl.DataFrame) -> pl.DataFrame:
        """`first_step`, `last_step`, `steps`, `lost` (seconds) and `worst` (times the median) of each stall."""
        slow = pl.col("period") > pl.max_horizontal(self.factor * pl.col("usual"), pl.lit(self.pause))
        return (
            periods.with_columns(slow.alias("slow"))
            .with_columns((pl.col("slow") != pl.col("slow").shift(fill_value=False)).cum_sum().alias("stretch"))
            .filter("slow")
            .group_by("stretch", maintain_order=True)
            .agg(
                pl.col("step").first().alias("first_step"),
                pl.col("step").last().alias("last_step"),
                pl.len().alias("steps"),
                (_evened(pl.col("period")) - pl.col("usual")).sum().alias("lost"),
                (pl.col("period") / pl.col("usual")).max().alias("worst"),
            )
            .filter(pl.col("steps") >= self.steps)
        )

    def _finding(self, run: Run, stalls: pl.DataFrame, periods: pl.DataFrame, lost: float, total: float) -> Finding:
        slow, usual = int(stalls["steps"].sum()), scalar(periods["usual"].median())
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"{plural(stalls.height, 'stall')} of {count(slow)} steps in all cost {duration(lost)},"
            f" {percent(lost / total)} of the time: up to {number(scalar(stalls['worst'].max()), 3)} times the usual"
            f" {duration(usual)} a step.",
            confidence=0.9,
            first_step=int(stalls["first_step"].min()),  # type: ignore[arg-type]
            last_step=int(stalls["last_step"].max()),  # type: ignore[arg-type]
            value=lost / total,
            threshold=self.share,
            unit="share",
            evidence=_evidence(run, stalls),
            causes=(
                "The data loader does not keep up: too few workers, a slow or remote disk, a cold cache",
                "Other work on the same machine, or swapping",
                "Batches that take far more work than the others",
            ),
            advice=(
                "Time the loader alone, over the batches of these steps; add workers, prefetch, keep the data close.",
                "Look at what else ran on the machine at that time.",
            ),
            chart=ChartRef("steps", "duration"),
        )


def _periods(run: Run, window: int) -> pl.DataFrame:
    """`step`, `period` (seconds to the start of the next step), `duration` and the `usual` period of steps like it."""
    frame = run.frame("steps", "time", "duration", "probed")
    pauses = pl.concat([run.frame("metrics").select("step"), _evaluated(run)]).drop_nulls().unique()
    period = pl.col("time").shift(-1) - pl.col("time")
    kept = (
        frame.with_columns(period.alias("period"), pl.col("probed").fill_null(value=False))
        .filter(pl.col("period").is_finite() & (pl.col("period") > 0))
        .join(pauses, on="step", how="anti", maintain_order="left")
    )
    # Of a short series the median of all; the window is centred, so that a lasting change of pace is no stall.
    usual = pl.col("period").rolling_median(window, min_samples=1, center=True).over("probed")
    # What the recorder's probes take is not the training's time.
    plain = pl.when("probed").then(None).otherwise(usual)
    return kept.with_columns(usual.alias("usual"), pl.coalesce(plain, plain.median(), usual).alias("plain"))


def _evened(period: pl.Expr) -> pl.Expr:
    """The periods of a stall, but that a single pause amid a few hiccups counts as one of them."""
    return pl.min_horizontal(period, 3 * period.median())


def _evaluated(run: Run) -> pl.DataFrame:
    """Steps at which something was evaluated."""
    steps = [event.step for event in run.events_of("evaluation") if event.step is not None]
    return pl.DataFrame({"step": [step + shift for step in steps for shift in (-1, 0)]}, {"step": pl.Int64})


def _evidence(run: Run, stalls: pl.DataFrame) -> Evidence:
    """Whether the steps themselves took long, or what lay between them; the longest stall."""
    longest = stalls.sort("lost").tail(1)
    first, last = int(longest["first_step"][0]), int(longest["last_step"][0])
    took = duration(float(longest["lost"][0]))
    supporting = [f"The longest lasted from step {count(first)} to {count(last)}, {took}."]
    inside = run.frame("steps", "duration").filter(pl.col("step").is_between(first, last))["duration"]
    within = scalar(inside.sum()) / scalar(longest["lost"][0])
    if within < 0.5:
        supporting.append("The steps themselves were not slow: the time went between them, as in waiting for data.")
    elif within > 0.8:
        supporting.append("The time went within the steps: forward pass, backward pass or the optimizer.")
    return Evidence(tuple(supporting))
