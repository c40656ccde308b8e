"""What came of the runs by one hyperparameter, and where to try next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from ...comparison.next_values import Advice
from ...comparison.outcomes import Goal
from ...comparison.tuning import advice_words
from ...wording import count, number
from ..base import Figure, Key
from ..binning import spreads
from ..marks import SHORT_NUMBER, layered, log_ticks
from ..theme import HEIGHT, SERIES


def against_outcome(
    advice: Advice, values: Sequence[float | None], costs: Sequence[float | None], names: Sequence[str], by: Goal
) -> Figure | None:
    """The outcome of each run by one hyperparameter, the best marked, and ticks at the values to try next."""
    points = [(x, y, name) for x, y, name in zip(values, costs, names, strict=True) if x is not None and y is not None]
    if len(points) < 2:
        return None
    frame = pl.DataFrame(points, schema=["value", "outcome", "run"], orient="row")
    best = frame.sort("outcome", descending=not by.falls).head(1)
    x, y = _value_axis(advice, frame["value"].to_list()), _outcome_axis(by, frame["outcome"])
    tooltip = ["run:N", alt.Tooltip("value:Q", title=advice.name), alt.Tooltip("outcome:Q", title=str(by))]
    every, ring = alt.Chart(frame), alt.Chart(best)
    layers = [
        every.mark_point(size=60, color=SERIES[0], filled=True, opacity=0.75, aria=False).encode(x, y, tooltip=tooltip),
        ring.mark_point(size=190, color=SERIES[0], filled=False, strokeWidth=1.6, aria=False).encode(x, y),
    ]
    keys = [Key("a run, the best ringed", SERIES[0], symbol="ring")]
    if advice.next:
        marks = alt.Chart(pl.DataFrame({"value": list(advice.next)}))
        layers.append(marks.mark_rule(color=SERIES[1], strokeDash=[4, 3], aria=False).encode(x))
        keys.append(Key("to try next", SERIES[1], dash=(4, 3)))
    at, reached = best.row(0)[:2]
    description = f"{by} by {advice.name}, {count(len(points))} runs: best {number(reached)} at {number(at)}."
    return Figure(
        title=advice.name,
        chart=layered(layers, HEIGHT, description),
        reading=advice_words(advice),
        description=description,
        keys=tuple(keys),
    )


def _value_axis(advice: Advice, tried: Sequence[float]) -> alt.X:
    """Wide enough for what was tried and what is to be; in factors where it spans several."""
    ticks: dict[str, Any]
    low, high = min(*tried, *advice.next), max(*tried, *advice.next)
    if low > 0 and high > 4 * low:
        pad = (high / low) ** 0.06
        low, high = low / pad, high * pad
        scale, ticks = alt.Scale(type="log", nice=False, domain=[low, high]), {"values": log_ticks(low, high)}
    else:
        pad = 0.06 * (high - low) or 1.0
        scale, ticks = alt.Scale(zero=False, nice=True, domain=[low - pad, high + pad]), {"tickCount": 5}
    return alt.X("value:Q", scale=scale, axis=alt.Axis(title=advice.name, labelExpr=SHORT_NUMBER, **ticks))


def _outcome_axis(by: Goal, reached: pl.Series) -> alt.Y:
    scale = alt.Scale(type="log") if by.falls and spreads(reached) else alt.Scale(zero=False)
    return alt.Y("outcome:Q", scale=scale, axis=alt.Axis(title=str(by), labelExpr=SHORT_NUMBER))
