"""A small chart for each parameter tensor: its gradient, its updates, and how far it has moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from ..absence import why_absent
from ..wording import count, number, plural, shape_words
from .base import Chart, Figure, Missing
from .binning import Span, bands_of
from .marks import (
    Axes,
    fit_domain,
    line_data,
    line_layers,
    odd_keys,
    over,
    series_keys,
    shown_at_first,
    with_points,
)
from .mold import Cast, Mold
from .over_steps import whole
from .rows import names_with, places_of

if TYPE_CHECKING:
    from ..manifest import TensorInfo
    from ..run import Run

MOST = 96
"""Tensors drawn; the size of the page must not follow the size of the model."""

HEIGHT = 110

SERIES = {
    "param_norm": "parameter norm",
    "grad_norm": "gradient norm",
    "update_norm": "update norm",
    "distance": "distance from start",
}

Molds = dict[tuple[tuple[str, ...], bool], Mold]
"""Charts by the columns of their data, and whether each value is a point."""

KEYS = series_keys(tuple(SERIES.values()))
"""The legend that all of these charts share."""


class TensorHistory(Chart):
    """One chart for each tensor. `first` names tensors to draw in any case, those that findings speak of."""

    name = "tensor-history"
    title = "Tensors one by one"
    section = "tensors"
    shows = ("layers.update_norm", "layers.param_norm")

    def __init__(self, first: Iterable[str] = ()) -> None:
        self.first = tuple(first)

    def draw(self, run: Run) -> Figure | Missing:
        """The chart of the first tensor."""
        return next(self.figures(run))

    def figures(self, run: Run) -> Iterator[Figure | Missing]:
        """Figures in forward order; of more than `MOST` tensors, those named and an even choice of the rest."""
        columns = [column for column in SERIES if run.has("layers", column)]
        if not columns:
            yield Missing(self.title, why_absent(run, "layers", "grad_norm"))
            return
        named = dict.fromkeys(name for column in columns for name in names_with(run, "layers", column))
        order = [tensor.name for tensor in run.tensors if tensor.name in named]
        chosen = _choice(list(dict.fromkeys([*order, *named])), self.first)
        bins = max(40, min(120, 6000 // len(chosen)))
        parts = _by_tensor(run, columns, chosen, bins)
        tensors = {tensor.name: tensor for tensor in run.tensors}
        molds: Molds = {}
        for name in chosen:
            yield _figure(parts[name], whole(run), name, _kind(tensors.get(name)), bins, molds)


def left_out(run: Run) -> str:
    """A sentence about tensors that are not drawn, if there are any."""
    if len(run.tensors) <= MOST:
        return ""
    drawn = f"{plural(MOST, 'tensor')} of {count(len(run.tensors))} are drawn"
    return f"{drawn}: those that findings name and an even choice of the rest."


def _choice(names: list[str], first: tuple[str, ...]) -> list[str]:
    if len(names) <= MOST:
        return names
    named = [name for name in names if name in set(first)][:MOST]
    rest = [name for name in names if name not in set(named)]
    room = MOST - len(named)
    even = {rest[i * len(rest) // room] for i in range(room)} if room else set()
    return [name for name in names if name in even or name in named]


def _kind(tensor: TensorInfo | None) -> str:
    """`Linear 128 x 784`."""
    return f"{tensor.module_type} {shape_words(tensor.shape)}".strip() if tensor else ""


def _by_tensor(run: Run, columns: list[str], chosen: list[str], bins: int) -> dict[str, pl.DataFrame]:
    """For each tensor its bands with the statistics as series."""
    names, places = places_of(run, "layers")
    frame = run.frame("layers", *columns).with_columns(places.alias("place"))
    wanted = pl.col("place").is_in([place for place, name in enumerate(names) if name in set(chosen)])
    found = bands_of(frame.lazy().filter(wanted), columns, whole(run), by=("place",), bins=bins, positive=True)
    series = [
        found[column].select("place", pl.lit(SERIES[column]).alias("series"), pl.all().exclude("place"))
        for column in columns
    ]
    binned = pl.concat(series).sort("place", "series", "step")
    parts = binned.partition_by("place", as_dict=True, include_key=False)
    return {names[place]: part for (place,), part in parts.items()}


def _figure(binned: pl.DataFrame, span: Span, name: str, kind: str, bins: int, molds: Molds) -> Figure:
    axes = Axes(span=span, title="", domain=fit_domain(binned, log=True), log=True, height=HEIGHT, bare=True)
    description = f"{name} over {span.words()}: {_spoken(binned)}"
    return Figure(
        title=name,
        chart=_chart(binned, axes, bins, description, molds),
        reading=kind,
        description=description,
        keys=odd_keys(binned),
    )


def _chart(binned: pl.DataFrame, axes: Axes, bins: int, description: str, molds: Molds) -> alt.LayerChart | Cast:
    """The lines of one tensor: drawn if it is the first of its form, or has odd values, else cast after the first."""
    names, span = tuple(SERIES.values()), axes.span
    data = line_data(binned, names)
    form = (tuple(data.columns), with_points(binned, names))
    if form in molds and not odd_keys(binned):
        return Cast(molds[form], data, shown_at_first(span, axes.parameters()), description)
    layers = line_layers(binned, axes, names, width=span.width(bins))
    chart = over(span, layers, axes.height, description, **axes.parameters())
    if not odd_keys(binned):
        molds[form] = Mold(chart)
    return chart


def _spoken(binned: pl.DataFrame) -> str:
    """Where each statistic began and ended, from its bands."""
    clauses = []
    for label in SERIES.values():
        values = binned.filter(pl.col("series") == label)["mid"].drop_nulls()
        if len(values):
            clauses.append(f"{label} from {number(values[0])} to {number(values[-1])}")
    return ("; ".join(clauses) or "no value is finite and above zero") + "."
