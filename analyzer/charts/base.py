"""What a chart is: static metadata, and a pure function of a run that draws or says why it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import altair as alt

if TYPE_CHECKING:
    from ..run import Run
    from .binning import Span
    from .mold import Cast

Renderer = Literal["svg", "canvas"]
Section = Literal[
    "learning",
    "step-size",
    "gradients",
    "curvature",
    "hyperparameters",
    "data",
    "units",
    "performance",
    "layers",
    "tensors",
]
"""The panel of the page that a chart stands in."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The key numbers of a chart as a small table of words; the first column names the row."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend. The page writes legends as text, which wraps on a phone and is read aloud."""

    label: str
    color: str
    dash: tuple[int, ...] = ()
    symbol: Literal["line", "band", "tick", "bar", "cross", "ring", "box", "square"] = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart with what stands around it.

    `reading` says what it shows and how to read it; `description` is what a screen reader says in its place, with
    numbers; `note` adds what is particular to this run. `span`: the steps that it covers, if it shows a part of the
    run. Canvas is for charts with thousands of marks.
    """

    title: str
    chart: alt.LayerChart | Cast
    reading: str
    description: str
    note: str = ""
    keys: tuple[Key, ...] = ()
    numbers: Numbers | None = None
    span: Span | None = None
    renderer: Renderer = "svg"
    wide: bool = False

    @property
    def height(self) -> int:
        """Height of the plot in pixels, which the page keeps free for it."""
        return int(self.chart["height"])


@dataclass(frozen=True, slots=True)
class Missing:
    """A chart that this run cannot fill, with the reason as a sentence."""

    title: str
    reason: str


class Chart:
    """A chart of the report. Kinds of charts live one to a file; `charts/__init__.py` lists every chart.

    A chart that is drawn like others is a declaration in the table of their kind: `quantities.py`, `heatmaps.py`.
    """

    name: str
    """Noun, lower case with hyphens; its anchor in the page."""
    title: str
    section: Section
    shows: tuple[str, ...] = ()
    """The columns that it pictures, as `table.column`: what a finding is judged by leads to the chart that shows it."""

    def draw(self, run: Run) -> Figure | Missing:
        """The chart of this run, or why there is none. Charts bin; they judge nothing."""
        raise NotImplementedError

    def figures(self, run: Run) -> Iterable[Figure | Missing]:
        """All figures of this chart; overridden where there is one for each metric or tensor."""
        yield self.draw(run)
