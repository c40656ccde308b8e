"""What charts over steps are put together from: lines within bands, thresholds, shaded spans, marks for odd values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import altair as alt
import polars as pl

from ..wording import number
from .base import Key
from .binning import Span
from .theme import ALARM, DASHES, HEIGHT, MUTED, PANEL, SERIES

DOTTED = (2, 3)
"""Dashes of a line that marks a level."""
STEPS, ZOOMED, VALUES, TICKS = "steps", "zoomed", "values", "ticks"
"""Parameters of every chart over steps, by which the page shows the same steps in all of them.

`steps`: first and last of those shown; `zoomed`: whether these are a part, so that marks beyond are cut off; `values`,
`ticks`: the range of a value axis that follows, and the ticks of a logarithmic one.
"""
POINTS_UP_TO = 30
"""A series of fewer values shows each as a point as well: a line through three of them says little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The frame of a chart over steps: which steps, which values, and how high."""

    span: Span
    title: str
    domain: tuple[float, float]
    log: bool = False
    height: int = HEIGHT
    bare: bool = False
    """Whether the surroundings say already that the axis is logarithmic."""
    fixed: bool = False
    """Whether the values shown stay when fewer steps are."""

    def x(self) -> alt.X:
        """The axis of steps. A single step gets room on both sides."""
        lonely = self.span.first == self.span.last
        axis: dict[str, Any] = {"values": [self.span.first]} if lonely else {"tickMinStep": 1}
        domain = {"expr": f"[{STEPS}[0] - 1, {STEPS}[1] + 1]" if lonely else STEPS}
        scale = {"domain": domain, "nice": False, "zero": False}
        return alt.X("step", type="quantitative", scale=scale, axis={"title": "step"} | axis)

    def y(self, field: str) -> alt.Y:
        """The axis of values; what lies outside a given domain is drawn on its edge."""
        kind: dict[str, Any] = {"type": "log"} if self.log else {"type": "linear", "zero": False}
        ticks: dict[str, Any] = {"values": {"expr": TICKS}} if self.log else {}
        domain = list(self.domain) if self.fixed else {"expr": VALUES}
        scale = kind | {"domain": domain, "nice": False, "clamp": True}
        axis = ticks | {"title": self._title(), "labelExpr": SHORT_NUMBER}
        return alt.Y(field, type="quantitative", scale=scale, axis=axis)

    def parameters(self) -> dict[str, Any]:
        """The parameters that its axes refer to, with their values at first."""
        values = {} if self.fixed else {VALUES: list(self.domain)}
        return values | ({TICKS: log_ticks(*self.domain)} if self.log else {})

    def _title(self) -> str | None:
        return (
            ", ".join(part for part in (self.title, "log scale" if self.log and not self.bare else "") if part) or None
        )


SHORT_NUMBER = (
    "datum.value !== 0 && (abs(datum.value) < 1e-3 || abs(datum.value) >= 1e6)"
    " ? replace(replace(format(datum.value, '.3~e'), 'e+', 'e'), 'e-', 'e\u2212') : format(datum.value, ',.4~r')"
)
"""How an axis writes its values, as `wording.number` does: 1e-7, 0.025, 12 500."""


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, thinned out evenly; 1, 2 and 5 times them where there is but one."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    stride = -(-(last - first + 1) // most) or 1
    powers = [10.0**power for power in range(first, last + 1) if power % stride == 0]
    if len(powers) > 1:
        return powers
    finer = [digit * 10.0**power for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
    return [value for value in finer if low <= value <= high] or [low * (high / low) ** 0.5]


def fit_domain(binned: pl.DataFrame, *, log: bool, include: float | None = None) -> tuple[float, float]:
    """The range of values around all bands and `include`: from zero where that wastes little, with some air."""
    ends = [
        float(value) for value in (binned["lo"].min(), binned["hi"].max(), include) if isinstance(value, (int, float))
    ]
    ends = [value for value in ends if value > 0] if log else ends
    if not ends:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(ends), max(ends)
    if log:
        factor = max((high / low) ** 0.06, 1.15)
        return low / factor, high * factor
    if 0 <= low <= 0.6 * high:
        return 0.0, high * 1.06 or 1.0
    if low == high > 0:
        return 0.0, high * 1.3
    pad = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return low - pad, high + pad


def line_layers(
    binned: pl.DataFrame, axes: Axes, series: Sequence[str] = (), *, width: int = 1, stepped: bool = False
) -> list[alt.Chart]:
    """The columns of `bands`, and `series` where there are several, as bands with a line and marks for odd values.

    `width`: steps to a bin.
    """
    data = line_data(binned, series)
    shown: dict[str, Any] = {"aria": False} | ({"interpolate": "step-after"} if stepped else {})
    shown |= {} if series else {"color": SERIES[0]}
    line = alt.Chart(data).mark_line(**shown, point={"size": 22} if with_points(binned, series) else False)
    layers = [line.encode(x=axes.x(), y=axes.y("mid"), **_styles(series, dashed=len(series) > 1))]
    if "lo" in data.columns:
        area = alt.Chart(data).mark_area(opacity=0.22, **shown)
        layers.insert(0, area.encode(x=axes.x(), y=axes.y("lo"), y2=alt.Y2("hi"), **_styles(series, dashed=False)))
    return layers + odd_layers(binned, axes, width)


def line_data(binned: pl.DataFrame, series: Sequence[str] = ()) -> pl.DataFrame:
    """The rows that `line_layers` draws, by series in order; with the columns lo and hi where these differ."""
    if series:
        binned = binned.sort(pl.col("series").replace_strict(list(series), range(len(series)), default=None), "step")
    banded = bool((binned["lo"] < binned["hi"]).any())
    return binned.select(*(["series"] if series else []), "step", *(["lo", "hi"] if banded else []), "mid", "bad")


def with_points(binned: pl.DataFrame, series: Sequence[str] = ()) -> bool:
    """Whether each value is shown as a point as well."""
    return len(binned) < POINTS_UP_TO * max(1, len(series))


def odd_layers(binned: pl.DataFrame, axes: Axes, width: int = 1) -> list[alt.Chart]:
    """A cross at the top where values stop being finite, and a bar while they stay so; rings at the foot for zeros.

    Zeros are marked on a logarithmic axis only, which has no place for them. `width`: steps to a bin.
    """
    layers = []
    if (binned["bad"] > 0).any():
        bad = stretches(binned.filter(pl.col("bad") > 0)["step"], width)
        bars = alt.Chart(bad).mark_rule(color=ALARM, strokeWidth=3, aria=False)
        layers.append(bars.encode(x=axes.x(), x2=alt.X2("until"), y=alt.value(5)))
        layers.append(marker(bad, axes, y=5, color=ALARM, shape="M-.7,-.7L.7,.7M-.7,.7L.7,-.7"))
    if (binned["zero"] > 0).any():
        zero = binned.filter(pl.col("zero") > 0).select("step").unique(maintain_order=True)
        layers.append(marker(zero, axes, y=axes.height - 5, color=MUTED, shape="circle"))
    return layers


def stretches(steps: pl.Series, width: int) -> pl.DataFrame:
    """Bins that follow each other joined: columns step and until, the first and the last bin of each stretch."""
    frame = pl.DataFrame({"step": steps}).unique().sort("step")
    begins = (pl.col("step").diff().fill_null(width + 1) > width).cum_sum()
    joined = frame.group_by(begins.alias("stretch"), maintain_order=True)
    return joined.agg(pl.col("step").first(), pl.col("step").last().alias("until")).drop("stretch")


def odd_keys(binned: pl.DataFrame) -> tuple[Key, ...]:
    """Legend entries for the marks of `odd_layers` that occur."""
    bad = (Key("not finite", ALARM, symbol="cross"),) if (binned["bad"] > 0).any() else ()
    zero = (Key("exactly zero", MUTED, symbol="ring"),) if (binned["zero"] > 0).any() else ()
    return bad + zero


def series_keys(series: Sequence[str]) -> tuple[Key, ...]:
    """Legend entries of the lines; none for a single one, which the title names."""
    if len(series) < 2:
        return ()
    return tuple(Key(name, SERIES[i % len(SERIES)], DASHES[i % len(DASHES)]) for i, name in enumerate(series))


def marker(frame: pl.DataFrame, axes: Axes, *, y: int, color: str, shape: str) -> alt.Chart:
    """Small marks in a row, `y` pixels from the top, at the steps of `frame`."""
    look: dict[str, Any] = {"shape": shape, "size": 32, "strokeWidth": 1.4, "filled": False, "opacity": 1}
    chart: alt.Chart = alt.Chart(frame).mark_point(color=color, aria=False, **look).encode(x=axes.x(), y=alt.value(y))
    return chart


def level_rule(levels: Sequence[float], axes: Axes, *, color: str = MUTED, dash: Sequence[int] = DOTTED) -> alt.Chart:
    """Horizontal lines at given values."""
    rule = alt.Chart(pl.DataFrame({"level": levels})).mark_rule(color=color, strokeDash=list(dash), aria=False)
    return cast("alt.Chart", rule.encode(y=axes.y("level")))


def threshold_layers(value: float, axes: Axes) -> list[alt.Chart]:
    """The value that decided, as a dashed line with its number above its right end."""
    frame = pl.DataFrame({"level": [value], "label": [f"threshold {number(value)}"]})
    words: dict[str, Any] = {
        "align": "right",
        "baseline": "bottom",
        "dx": -2,
        "dy": -2,
        "fontSize": 10.5,
        "aria": False,
    }
    halo: dict[str, Any] = {"color": PANEL, "stroke": PANEL, "strokeWidth": 4, "strokeJoin": "round", "opacity": 0.85}
    place: dict[str, Any] = {"x": alt.value("width"), "y": axes.y("level"), "text": alt.Text("label", type="nominal")}
    return [
        level_rule([value], axes, color=ALARM, dash=(6, 4)),
        alt.Chart(frame).mark_text(**halo, **words).encode(**place),
        alt.Chart(frame).mark_text(color=ALARM, **words).encode(**place),
    ]


def shade_layers(shaded: Span, axes: Axes) -> list[alt.Chart]:
    """The steps at which a rule fired: a tinted field between two thin lines."""
    ends = pl.DataFrame({"step": [shaded.first, shaded.last], "until": [shaded.last, shaded.last]})
    return [
        alt.Chart(ends.head(1)).mark_rect(color=ALARM, opacity=0.1, aria=False).encode(x=axes.x(), x2=alt.X2("until")),
        alt.Chart(ends).mark_rule(color=ALARM, opacity=0.55, aria=False).encode(x=axes.x()),
    ]


def shade_keys(shaded: Span) -> tuple[Key, ...]:
    """The legend entry of the shaded steps."""
    return (Key(f"rule fired, {shaded.words()}", ALARM, symbol="band"),)


def layered(layers: Sequence[alt.Chart], height: int, description: str) -> alt.LayerChart:
    """The layers as one chart, as wide as the page gives it."""
    return cast("alt.LayerChart", alt.layer(*layers, width="container", height=height, description=description))


def over(span: Span, layers: Sequence[alt.Chart], height: int, description: str, **parameters: Any) -> alt.LayerChart:
    """The same of layers over the steps of `span`, with the parameters that the page sets."""
    for layer in layers:
        layer.mark.clip = alt.ExprRef(ZOOMED)
    chart = layered(layers, height, description)
    values = shown_at_first(span, parameters)
    chart.params = [alt.VariableParameter(name=name, value=value) for name, value in values.items()]
    return chart


def shown_at_first(span: Span, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all parameters before the page sets them."""
    return {STEPS: [span.first, span.last], ZOOMED: False, **parameters}


def _styles(series: Sequence[str], *, dashed: bool) -> dict[str, Any]:
    """Colours by series, and dashes too for lines."""
    if not series:
        return {}
    domain = list(series)
    colors = {"domain": domain, "range": [SERIES[i % len(SERIES)] for i in range(len(series))]}
    dashes = {"domain": domain, "range": [list(DASHES[i % len(DASHES)]) for i in range(len(series))]}
    color = alt.Color("series", type="nominal", scale=colors, legend=None)
    return {"color": color} | (
        {"strokeDash": alt.StrokeDash("series", type="nominal", scale=dashes, legend=None)} if dashed else {}
    )
