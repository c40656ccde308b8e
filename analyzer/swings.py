"""Losses that swing to and fro by more than their noise: how often, how far, and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from .noise import blocks, scalar

_SMOOTH = 0.5
"""Correlation of neighbouring differences above which a series moves smoothly; that of white noise is -0.5."""

_ALTERNATING = -0.85
"""Correlation of neighbouring differences below which a series goes up and down with every step."""

_MOST = 400
"""Blocks that are looked at, the last ones."""


@dataclass(frozen=True, slots=True)
class Swings:
    """`rises`: how often the loss rose by more than its noise and a fifth. `largest`: the largest, as a factor.

    `height` is the median height of the rises, in the unit of the loss, `noise` that of a block mean (a standard
    error). `first_step` is where the first rise began, `period` the steps from rise to rise.
    """

    rises: int
    largest: float
    height: float
    noise: float
    first_step: int
    period: float


def swings(series: pl.DataFrame, least: float, errors: float = 6.0, share: float = 0.2) -> Swings | None:
    """The swings of a loss (`step`, `loss`), on the time scale on which there are most; None if there are none.

    A rise counts if it is larger than so many standard errors of a block mean, than that share of its own beginning,
    and than `least`. Short blocks are only trusted where the series moves smoothly, or alternates with every step.
    """
    if series.height < 40:
        return None
    differences = series["loss"].diff().drop_nulls()
    turn = scalar(pl.DataFrame({"a": differences, "b": differences.shift()}).select(pl.corr("a", "b")).item())
    settled = differences.tail(differences.len() * 3 // 4)  # the first fall is no noise
    noise = scalar(settled.std()) / 2**0.5
    if turn < _ALTERNATING:
        return _alternating(series, differences, least, share)
    lengths = [length for length in _lengths(series.height) if length >= 16 or turn > _SMOOTH]
    found = [_on_scale(series, length, noise, least, errors, share) for length in lengths]
    return max((item for item in found if item is not None), key=lambda item: (item.rises, item.largest), default=None)


def _lengths(count: int) -> Iterator[int]:
    """Lengths of blocks, of which there are a dozen at least."""
    length = 1
    while count // length >= 12:
        yield length
        length *= 4


def _on_scale(
    series: pl.DataFrame, length: int, noise: float, least: float, errors: float, share: float
) -> Swings | None:
    means = blocks(series.tail(_MOST * length), "loss", length) if length > 1 else series.tail(_MOST)
    values = means["mean" if length > 1 else "loss"].to_list()
    steps = means["first_step" if length > 1 else "step"].to_list()
    error = noise / length**0.5
    ups = _rises(values, max(errors * error, least), share)
    if not ups:
        return None
    heights = sorted(values[high] - values[low] for low, high in ups)
    span = steps[ups[-1][1]] - steps[ups[0][0]]
    return Swings(
        rises=len(ups),
        largest=max(values[high] / values[low] for low, high in ups),
        height=heights[len(heights) // 2],
        noise=error,
        first_step=steps[ups[0][0]],
        period=span / max(1, len(ups) - 1) if len(ups) > 1 else float(span),
    )


def _rises(values: list[float], least: float, share: float) -> list[tuple[int, int]]:
    """Positions of the low and the high of each rise that counts, between falls that count as well."""
    found: list[tuple[int, int]] = []
    low = high = 0
    up = False
    for position, value in enumerate(values):
        if up:
            if value > values[high]:
                high = position
            elif values[high] - value > max(least, share / (1 + share) * values[high]):
                found.append((low, high))
                low, up = position, False
        elif value < values[low]:
            low = position
        elif value - values[low] > max(least, share * values[low]) and values[low] > 0:
            high, up = position, True
    return [*found, (low, high)] if up else found


def _alternating(series: pl.DataFrame, differences: pl.Series, least: float, share: float) -> Swings | None:
    height = scalar(differences.tail(_MOST).abs().median())
    level = scalar(series["loss"].tail(_MOST).median()) - height / 2
    if height < max(least, share * level) or level <= 0:
        return None
    count = min(_MOST, series.height) // 2
    return Swings(count, (level + height) / level, height, 0.0, int(series["step"][0]), 2.0)
