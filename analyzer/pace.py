"""How fast a training got on: how straight its steps led, how soon its loss fell, how much clipping took."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .depth import of_weights
from .memo import per_run
from .noise import Mean, batch_mean, blocks, scalar
from .progress import Progress, losses
from .run import Run

WELL = 0.95
"""Share of what there was to learn beyond which a training did well, however it got there."""


@dataclass(frozen=True, slots=True)
class Clipping:
    """`share`: of the steps, those whose gradient was made smaller. `factor`: by how much, the median over those."""

    share: float
    factor: float


def clipping(run: Run) -> Clipping | None:
    """How clipping changed the gradients; None where no gradient was changed. Skipped steps are left out."""
    frame = sound_norms(run)
    factor = frame["grad_norm_clipped"] / frame["grad_norm"]
    smaller = factor.filter(factor < 0.99)
    if smaller.is_empty():
        return None
    return Clipping(smaller.len() / frame.height, scalar(smaller.median()))


def sound_norms(run: Run) -> pl.DataFrame:
    """`step`, `grad_norm`, `grad_norm_clipped`, `loss_scale` of steps that were taken and have a finite gradient."""
    frame = run.frame("steps", "grad_norm", "grad_norm_clipped", "loss_scale", "skipped")
    sound = pl.col("grad_norm").is_finite() & (pl.col("grad_norm") > 0)
    return frame.filter(sound & ~pl.col("skipped").fill_null(value=False))


def heedless(run: Run) -> bool:
    """Whether all optimizers divide gradients by their own size, so that clipping them alike changes no step.

    Only while what is left is more than the small number that keeps them from dividing by zero.
    """
    types = [group.type.lower() for group in run.groups]
    adaptive = bool(types) and all(any(word in name for word in _ADAPTIVE) for name in types)
    kept, count = scalar(sound_norms(run)["grad_norm_clipped"].median()), run.manifest.parameters or 1
    return adaptive and not kept / count**0.5 < _DAMPED


_ADAPTIVE = ("ada", "rms", "lion", "sign", "lamb")
_DAMPED = 1e-7
"""Root mean square of a gradient's elements; ten times the epsilon of Adam and RMSprop in PyTorch."""


@per_run
def straightness(run: Run) -> float | None:
    """Distance from the start over the summed length of all updates, the median over the weight tensors.

    1: all updates point the same way. Around 1/sqrt(steps): a random walk. None if no update was made or recorded.
    """
    rows = of_weights(run, "distance", "update_norm").drop_nulls()
    last = rows.group_by("tensor", maintain_order=True).agg(
        pl.col("distance").last(), pl.col("update_norm").mean(), (pl.col("step").last() - pl.col("step").first())
    )
    length = pl.col("update_norm") * pl.col("step")
    shares = last.filter(length > 0).select(pl.col("distance") / length).to_series()
    return None if shares.is_empty() else scalar(shares.median())


def fallen(progress: Progress) -> float:
    """Share of the first loss that is gone at the end, negative if it rose; 1 if there was nothing to lose."""
    return 1 - progress.end.value / progress.start if progress.start > 0 else 1.0


def did_well(progress: Progress) -> bool:
    """Whether nearly all was learned, by the loss of a model that knows nothing or else by the first loss."""
    return (progress.learned if progress.zero else fallen(progress)) >= WELL


def half_time(run: Run, progress: Progress) -> float | None:
    """The share of the run after which half of the fall of the loss was made; None if it did not fall."""
    series = losses(run)
    if series.height < 2 or progress.end.value >= progress.start:
        return None
    means = blocks(series, "loss", max(1, series.height // 50))
    rows = means["rows"].cum_sum() - means["rows"]
    reached = rows.filter(means["mean"] <= (progress.start + progress.end.value) / 2)
    return int(reached[0]) / series.height if len(reached) else None


def last_quarters(run: Run) -> tuple[Mean, Mean]:
    """The mean losses of the third and of the last quarter of the run."""
    series = losses(run)["loss"]
    quarter = max(1, series.len() // 4)
    return batch_mean(series.slice(series.len() - 2 * quarter, quarter)), batch_mean(series.tail(quarter))


def still_falling(run: Run) -> bool:
    """Whether the loss of the last quarter is lower than that of the quarter before, by three standard errors."""
    before, end = last_quarters(run)
    return before.exceeds(end, 3)
