"""Charts as SVG files that stand alone: with their title, legend and colours inside."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..charts.base import Chart, Figure, Key
from ..charts.tensor_history import KEYS
from ..charts.theme import CONFIG
from ..run import Run
from ..templates import render
from ..wording import xml_text
from .palette import resolved
from .svg import draw, serialised

FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
"""What vl-convert measures words with, so that they take the room that they were given."""
WIDTH, WIDE = 640, 960
"""Pixels of an ordinary chart, and of one that a page gives all its width."""

_CONFIG = CONFIG | {"font": FONT, "padding": {"left": 16, "top": 4, "right": 12, "bottom": 4}}


def drawings(run: Run, chart: Chart) -> Iterator[tuple[str, str]]:
    """Name and content of a file for each figure of a chart that the run can fill.

    Where it has several, for each metric or tensor, their names tell that too.
    """
    figures = [figure for figure in chart.figures(run) if isinstance(figure, Figure)]
    taken: set[str] = set()
    for figure in figures:
        name = chart.name if len(figures) == 1 else _unique(f"{chart.name}-{_slug(figure.title)}".rstrip("-"), taken)
        yield f"{name}.svg", document(figure, KEYS if chart.section == "tensors" else ())


def document(figure: Figure, keys: tuple[Key, ...] = ()) -> str:
    """The figure as an SVG document in light colours; `keys` are legend entries beside its own."""
    chart = draw(figure.chart, _CONFIG, width=WIDE if figure.wide else WIDTH, name="chart")
    size = (float(chart.attrib["width"]), float(chart.attrib["height"]))
    written = render(
        "chart.svg.jinja",
        figure=figure,
        keys=keys + figure.keys,
        chart=serialised(chart),
        size=size,
        font=FONT,
    )
    return xml_text(resolved(written))


def _slug(title: str) -> str:
    """The title as a part of a file's name, on any system."""
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")[:60]


def _unique(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found
