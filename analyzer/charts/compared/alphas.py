"""The distribution of alpha run by run, on the same axes."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from ...comparison.measures import Series
from ...wording import capitalized, count, number, percent
from ..alpha import SHOWN
from ..alpha_distribution import BIN
from ..base import Figure, Numbers
from ..marks import layered
from ..theme import MUTED, SERIES
from . import MOST, Curves


def alpha_distributions(series: Mapping[tuple[str, int], Series], curves: Curves) -> tuple[Figure, ...]:
    """A histogram of alpha for each run that has it, all on the same axes."""
    known = [
        (i, name, series["alpha", position])
        for i, (position, name) in enumerate(zip(curves.positions, curves.names, strict=True))
        if not series["alpha", position].is_empty()
    ]
    if not known:
        return ()
    shares = {name: _shares(values) for _, name, values in known}
    top = max(float(frame["share"].max() or 0.0) for frame in shares.values())  # type: ignore[arg-type]
    return tuple(_distribution(name, values, shares[name], top, SERIES[i % MOST]) for i, name, values in known)


def _shares(values: Series) -> pl.DataFrame:
    """Columns alpha (left edge of a bin) and share in percent; every bin of the axis has a row."""
    bins = round((SHOWN[1] - SHOWN[0]) / BIN)
    position = ((pl.col("value") - SHOWN[0]) / BIN).floor().clip(0, bins - 1).cast(pl.Int64).alias("bin")
    counted = values.select(position).group_by("bin").agg(pl.len().alias("n"))
    grid = pl.DataFrame({"bin": range(bins + 1)}).join(counted, on="bin", how="left", maintain_order="left")
    return grid.select(
        (SHOWN[0] + pl.col("bin") * BIN).round(6).alias("alpha"),
        (100 * pl.col("n").fill_null(0) / values.height).alias("share"),
    )


def _distribution(name: str, values: Series, shares: pl.DataFrame, top: float, color: str) -> Figure:
    quantiles = [values["value"].quantile(share, "linear") for share in (0.1, 0.5, 0.9)]
    above = percent(float((values["value"] > 1).sum()) / values.height)
    described = f"median {number(quantiles[1], 3)}, {above} above 1 ({count(values.height)} values)"
    x = alt.X("alpha:Q", scale=alt.Scale(domain=list(SHOWN), nice=False), axis=alt.Axis(title="alpha", format="~g"))
    y = alt.Y("share:Q", axis=alt.Axis(title="% of the steps"), scale=alt.Scale(domain=[0, max(top, 1.0)]))
    base = alt.Chart(shares).encode(x=x)
    marks = pl.DataFrame({"alpha": [-1.0, 0.0, 1.0]})
    layers = [
        alt.Chart(marks).mark_rule(color=MUTED, strokeDash=[2, 3], aria=False).encode(x=x),
        base.mark_area(opacity=0.18, interpolate="step-after", aria=False, color=color).encode(y=y.stack(None)),
        base.mark_line(interpolate="step-after", aria=False, color=color).encode(y=y),
        alt.Chart(pl.DataFrame({"alpha": quantiles[1:2]}))
        .mark_rule(color=color, strokeWidth=2, aria=False)
        .encode(x=x),
    ]
    description = f"Distribution of alpha in {name}: {described}."
    header = ("", "values", "10 %", "median", "90 %", "above 1")
    row = (name, count(values.height), *(number(value, 3) for value in quantiles), above)
    return Figure(
        title=name,
        chart=layered(layers, 132, description),
        reading=f"{capitalized(described)}.",
        description=description,
        numbers=Numbers(header, (row,)),
    )
