"""What the lengths of the steps tell alone, whatever the loss says: weights overwritten at once, and no rest."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .depth import update_ratios, weights
from .findings import Severity
from .noise import block_length, blocks, scalar
from .progress import Progress, adversarial, losses, measured, uninformed
from .run import Run
from .wording import count, number, percent

TINY = 4
"""Samples in a batch whose noise alone makes the steps large."""
PROBES = 20
"""Probes without which a tenth of them means nothing."""


@dataclass(frozen=True, slots=True)
class Strides:
    """Steps that moved half of the layers by more than `limit` of their norm. `value`: how far the steps went.

    `told`, `against`: what to say of them, and what speaks against a rate that is too large. `beyond` of `probes` show
    it, from `first` to `last`.
    """

    told: str
    against: str
    severity: Severity
    confidence: float
    value: float
    limit: float
    first: int
    last: int
    beyond: int
    probes: int


def overwriting(run: Run, limit: float) -> Strides | None:
    """A step that was larger than the weights of half of the layers."""
    ratios = update_ratios(run)
    beyond = ratios.filter(pl.col("median") > limit)
    if beyond.is_empty() or len(weights(run)) < 2:
        return None
    progress = measured(run)
    futile = progress is not None and uninformed(run, progress) is True
    return Strides(
        told=f"At step {count(int(beyond['step'][0]))} half of the layers moved by more than their own norm"
        f" ({number(beyond['median'][0], 3)} times it): what they held before is gone.",
        against="The loss shows no lasting harm, or does not tell.",
        severity="warning" if futile else "note",
        confidence=0.6,
        value=scalar(beyond["median"].max()),
        limit=limit,
        first=int(beyond["step"][0]),
        last=int(beyond["step"][-1]),
        beyond=beyond.height,
        probes=ratios.height,
    )


def restless(run: Run, limit: float) -> Strides | None:
    """So many steps that moved half of the layers far that little can settle."""
    ratios = update_ratios(run).filter(pl.col("median").is_finite())
    if ratios.height < PROBES or len(weights(run)) < 2 or adversarial(run) or _tiny_batches(run):
        return None
    far = scalar(ratios["median"].quantile(0.9))
    if far <= limit:
        return None
    progress, beyond = measured(run), ratios.filter(pl.col("median") > limit)
    futile = progress is not None and uninformed(run, progress) is True and not _ever_learned(run, progress)
    outcome = "nothing was learned" if futile else "such steps leave little time to settle"
    return Strides(
        told=f"A tenth of the steps moved half of the layers by more than {percent(far)} of their norm each, and"
        f" {outcome}.",
        against="The loss did not rise above its start.",
        severity="error" if futile else "note",
        confidence=0.6 if futile else 0.4,
        value=far,
        limit=limit,
        first=int(beyond["step"][0]),
        last=int(beyond["step"][-1]),
        beyond=beyond.height,
        probes=ratios.height,
    )


def _ever_learned(run: Run, progress: Progress) -> bool:
    """Whether the loss was well below that of a model which knows nothing at any time."""
    series = losses(run)
    means = blocks(series, "loss", min(block_length(series.height), max(1, series.height // 2)))["mean"]
    return scalar(means.min()) < 0.9 * progress.reference


def _tiny_batches(run: Run) -> bool:
    sizes = run.frame("steps", "batch_size")["batch_size"].drop_nulls()
    return len(sizes) > 0 and scalar(sizes.median()) <= TINY
