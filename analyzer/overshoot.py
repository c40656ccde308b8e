"""What shows that a training was thrown off: where its loss rose above its start, and how far the steps went there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from .depth import of_weights, update_ratios, weights
from .memo import per_run
from .noise import block_length, blocks, scalar
from .phases import Phases
from .progress import Progress, losses, uninformed
from .run import Run

SIGNIFICANT = 6.0
"""Standard deviations of a single batch's loss that a level must lie above the start to count as above it."""

SHORT = 40
"""Steps below which half a run is a block."""

Kind = Literal["non-finite", "above its start", "thrown off", "killed", "lost again"]


@dataclass(frozen=True, slots=True)
class Harm:
    """Lasting harm to the loss. `level` is the mean that shows it, `limit` what a harmless run stays below.

    `onset` is the first step of it; `recovered` whether the run ended well below where it began nevertheless.
    """

    kind: Kind
    onset: int
    last_step: int
    level: float
    limit: float
    start: float
    recovered: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the steps of a window went. `alpha_p90` is the 90th percentile of alpha, None if fewer than 5 are known.

    `ratio` is the largest median over the layers of update over weight, None if unknown, and `ratio_step` its step.
    `uphill` is the share of the steps whose update led against the gradient.
    """

    alpha_p90: float | None
    alphas: int
    ratio: float | None
    ratio_step: int | None
    uphill: float


@per_run
def harm(run: Run, progress: Progress, phase: Phases, rise: float = 1.2) -> Harm | None:
    """The first lasting harm to the loss, None if there was none. Losses must be positive.

    Harm is: a block of losses above the start, a value that is not finite, nothing learned after an early jump or after
    the gradients died, or most of what was learned lost again. If nothing was learned at the end, it began with the
    first sign of it.
    """
    series = losses(run)
    start, noise = starting_level(run, series)
    limit = _limit(progress, start, noise, rise)
    told = uninformed(run, progress)
    ignorant = told or (told is None and progress.end.value > 0.9 * start)
    length = block_length(series.height) if series.height >= SHORT else max(1, series.height // 2)
    means = blocks(series, "loss", length)
    above = means.filter((pl.col("mean") > limit) & (pl.col("upper") > limit))  # a few outliers are no level
    broke = broken(run)
    broke = None if broke is not None and fed_nonfinite(run, broke) else broke
    signs = _signs(run, series, phase, max(1.15 * start, start + SIGNIFICANT * noise)) if ignorant else {}
    if not above.is_empty():
        high = series.filter((pl.col("loss") > limit) & (pl.col("step") >= above["first_step"][0]))
        onset = min((int(high["step"][0]), *signs.values()))
        level, last = scalar(above["mean"].max()), int(above["last_step"][-1])
        recovered = broke is None and not ignorant and progress.learned > 0.5 and progress.end.value < limit
        return Harm("above its start", onset, last, level, limit, start, recovered)
    end, last = progress.end.value, int(series["step"][-1])
    if broke is not None:
        return Harm("non-finite", broke, broke, float(series["loss"][-1]), limit, start, recovered=False)
    if "thrown off" in signs:
        peak = scalar(series.filter(pl.col("step") <= signs["thrown off"] + 100)["loss"].max())
        return Harm("thrown off", min(signs.values()), last, peak, limit, start, recovered=False)
    if "killed" in signs:
        return Harm("killed", signs["killed"], last, end, limit, start, recovered=False)
    return None if ignorant else _lost(means, progress, start)


def _limit(progress: Progress, start: float, noise: float, rise: float) -> float:
    """What the mean of a block stays below in a harmless run: well above the start, and above knowing nothing."""
    known = progress.zero is not None and start >= 0.5 * progress.zero.uniform
    limit = max((rise if known else 2.0) * start, start + SIGNIFICANT * noise)
    return limit if progress.zero is None else max(limit, 1.1 * progress.zero.uniform)


def starting_level(run: Run, series: pl.DataFrame) -> tuple[float, float]:
    """The first loss, and the standard error of it: from its individual losses, else from the scatter of the run."""
    start = float(series["loss"][0])
    error = run.frame("steps", "loss_se").join(series.head(1).select("step"), on="step", how="semi")["loss_se"]
    if len(error) and error[0] is not None and error[0] > 0:
        return start, float(error[0])
    means = blocks(series, "loss", min(block_length(series.height), max(2, series.height)))
    relative = (means["noise"] / means["mean"]).filter(means["mean"] > 0).drop_nulls()
    return start, start * scalar(relative.median()) if len(relative) else 0.0


def first_nonfinite(run: Run) -> int | None:
    """The first step whose loss or gradient is not finite, those that a gradient scaler skipped left out.

    A gradient that is finite when the optimizer steps was only scaled too far before.
    """
    frame = run.frame("steps", "loss", "grad_norm", "grad_norm_clipped", "skipped")
    gradient = pl.coalesce("grad_norm_clipped", "grad_norm")
    bad = pl.col("loss").is_finite().not_() | gradient.is_finite().not_()
    found = frame.filter(bad & ~pl.col("skipped").fill_null(value=False))
    return None if found.is_empty() else int(found["step"][0])


def fed_nonfinite(run: Run, step: int) -> bool:
    """Whether the model's input was not finite at a step: then it is the data that broke the run, not its steps."""
    fed = run.frame("steps", "input_nonfinite").filter(pl.col("step") == step)["input_nonfinite"].drop_nulls()
    return len(fed) > 0 and scalar(fed[0]) > 0


def broken(run: Run) -> int | None:
    """The first step that was not finite, if most of the losses after it were not either; None if the run went on."""
    step = first_nonfinite(run)
    if step is None:
        return None
    after = run.frame("steps", "loss").filter(pl.col("step") > step)["loss"].drop_nulls()
    return step if after.is_empty() or scalar(after.is_finite().mean()) < 0.5 else None


def _signs(run: Run, series: pl.DataFrame, phase: Phases, limit: float) -> dict[Kind, int]:
    """The steps of an early jump of the loss, and of the death of the gradients, of a run that learned nothing."""
    early = (phase.first_step if phase.full_from is None else phase.full_from) + 100
    jumps = series.filter((pl.col("loss") > limit) & (pl.col("step") <= early))
    found: dict[Kind, int] = {}
    if not jumps.is_empty():
        found["thrown off"] = int(jumps["step"][0])
    died = death(run)
    if died is not None:
        found["killed"] = died
    return found


def _lost(means: pl.DataFrame, progress: Progress, start: float) -> Harm | None:
    """Harm to a run that had learned four fifths, and ended having lost half of what there was to learn."""
    best = means.row(means["mean"].arg_min() or 0, named=True)
    limit, end = 0.5 * progress.reference, progress.end
    after = means.filter((pl.col("mean") > limit) & (pl.col("first_step") > best["first_step"]))
    if best["mean"] > 0.2 * progress.reference or end.value < limit or after.is_empty():
        return None
    onset, last = int(after["first_step"][0]), int(means["last_step"][-1])
    return Harm("lost again", onset, last, end.value, limit, start, recovered=False)


@per_run
def death(run: Run, factor: float = 1e-3) -> int | None:
    """The step at which the gradients of the first half of the layers fell a thousandfold, for good; None if not.

    They must have been sound at the start. Weights that shrank tenfold are no death: regularisation did that.
    """
    half = max(1, len(weights(run)) // 2)
    frame = of_weights(run, "grad_norm", "param_norm").filter(pl.col("depth") < half).drop_nulls()
    total = pl.col("grad_norm", "param_norm").pow(2).sum().sqrt()
    sums = frame.group_by("step", maintain_order=True).agg(total).filter(pl.col("grad_norm").is_finite())
    if sums.height < 8:
        return None
    first = scalar(sums["grad_norm"].head(3).median())
    last = scalar(sums["grad_norm"].tail(max(3, sums.height // 4)).median())
    shrunk = sums["param_norm"][-1] < 0.1 * sums["param_norm"][0]
    if first == 0 or last > factor * first or shrunk:
        return None
    return int(sums.filter(pl.col("grad_norm") <= factor * first)["step"][0])


def reach(run: Run, first: int, last: int) -> Reach:
    """How far the steps from `first` to `last` went."""
    window = run.frame("steps", "alpha", "start_slope")
    window = window.filter(pl.col("step").is_between(first, last))
    alphas = window["alpha"].drop_nulls()
    quantiles = [alphas.head(count).quantile(0.9) for count in (25, 50, 100) if len(alphas) >= 5]
    ratios = update_ratios(run).filter(pl.col("step").is_between(first, last))
    top = ratios.sort("median", descending=True, nulls_last=True).head(1)
    slopes = window.filter(pl.col("start_slope").is_finite())["start_slope"]
    return Reach(
        alpha_p90=max((value for value in quantiles if value is not None), default=None),
        alphas=len(alphas),
        ratio=None if top.is_empty() else float(top["median"][0]),
        ratio_step=None if top.is_empty() else int(top["step"][0]),
        uphill=scalar((slopes > 0).mean()) if len(slopes) else 0.0,
    )


def is_early(onset: int, phase: Phases, steps: int) -> bool:
    """Whether something began where a rate that is too large shows: at the start, in or after warm-up, after a rise."""
    if phase.full_from is None:  # the rate rose all along
        return True
    begin = phase.full_from
    patience = max(100, steps // 10)
    return onset <= begin + patience or any(rise <= onset <= rise + patience for rise in phase.rises)


def sudden(run: Run, onset: int) -> bool:
    """Whether the loss jumped from one step to the next though no larger gradient than usual came before.

    Then the step before did not lead there: the batches changed, or something outside the descent did.
    """
    frame = run.frame("steps", "loss", "grad_norm").filter(pl.col("loss").is_finite())
    before = frame.filter(pl.col("step") < onset).tail(500)
    after = frame.filter(pl.col("step") >= onset)["loss"].head(20)
    if before.height < 50 or after.is_empty():
        return False
    usual, last = before.head(before.height - 5)["grad_norm"], before.tail(5)["grad_norm"]
    quiet = scalar(last.max()) <= 3 * scalar(usual.quantile(0.95))
    level = scalar(before["loss"].median())
    return quiet and float(after[0]) - level >= 0.5 * (scalar(after.median()) - level) > 0
