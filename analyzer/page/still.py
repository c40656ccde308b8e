"""Figures of a page without script: pictures in SVG, those that matter most where not all of them fit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ..charts import CHARTS
from ..charts.base import Chart, Figure, Missing
from ..charts.theme import CONFIG
from .figures import Drawn, Figures, FindingView
from .svg import draw, serialised

if TYPE_CHECKING:
    from ..findings import Finding
    from ..run import Run

LIMIT = 100_000
"""Bytes of a page that is to be mailed: Gmail cuts a message after 102 kB."""
LEAST = 20_000
"""Bytes that pictures may have even where the words alone come near the limit."""
WIDTH = 420
"""Pixels of a picture. A page gives it some 320 on a phone and 510 on a desk, so its letters are legible on both."""

KEY_CHARTS = ("loss", "alpha", "learning-rate", "gradient-norm", "gradient-heatmap", "metrics")
"""Charts that a page has which is to be mailed, the most important first. Findings have theirs before them."""

_SIZES = {"labelFontSize": 12, "titleFontSize": 12}
STILL_CONFIG: dict[str, Any] = CONFIG | {
    "padding": {"left": 12, "top": 4, "right": 12, "bottom": 4},
    "axis": CONFIG["axis"] | _SIZES,
    "legend": CONFIG["legend"] | _SIZES,
}
"""The look of all charts, with letters for a picture that a phone makes smaller."""

_PLACE = re.compile(r"<!--picture ([\w-]+)-->")
_LEFT_OUT = Markup('<p class="fallback">The picture is left out, so that this page fits a mail. {}</p>')


class Pictures:
    """Draws figures as pictures. A page is rendered with a mark for each; `fill` puts them in, as far as they fit."""

    def __init__(self, *, every: bool = False) -> None:
        self._every = every
        self._pictures: dict[str, Markup] = {}
        self._words: dict[str, Markup] = {}

    def draw(self, anchor: str, figure: Figure) -> Drawn:
        """The figure with the mark of its picture."""
        svg = draw(figure.chart, STILL_CONFIG, width=WIDTH, name=anchor)
        svg.attrib |= {"role": "img", "aria-label": figure.description}
        self._pictures[anchor] = serialised(svg)
        self._words[anchor] = _LEFT_OUT.format(escape(figure.description))
        return Drawn(anchor, figure, picture=Markup(f"<!--picture {anchor}-->"))

    def fill(self, page: str, ranks: Mapping[str, int] = MappingProxyType({})) -> str:
        """The rendered page with its pictures: those of a low rank first, and else as they stand in the page.

        One that does not fit leaves its words, unless every picture is wanted.
        """
        size = len(_PLACE.sub(lambda match: self._words[match[1]], page).encode())
        room = max(LIMIT - size, LEAST)
        shown = set()
        for anchor in sorted(_PLACE.findall(page), key=lambda anchor: ranks.get(anchor, math.inf)):
            more = len(self._pictures[anchor].encode()) - len(self._words[anchor].encode())
            if self._every or more <= room:
                shown.add(anchor)
                room -= more
        return _PLACE.sub(lambda match: (self._pictures if match[1] in shown else self._words)[match[1]], page)


class Stills(Figures):
    """The figures of a run as pictures: the key charts, or every one."""

    def __init__(self, run: Run, pictures: Pictures, *, every: bool = False) -> None:
        charts = CHARTS if every else tuple(chart for chart in CHARTS if chart.name in KEY_CHARTS)
        super().__init__(run, charts, pictures.draw)
        self._every = every
        self.ranks: dict[str, int] = {}
        """How much each figure matters, the most important the least."""

    def findings(self, findings: Iterable[Finding]) -> tuple[FindingView, ...]:
        """The findings with their charts, which come before all others; in a mail, symptoms go without."""
        views = super().findings(findings)
        self.ranks |= {view.chart.id: -1 for view in views if isinstance(view.chart, Drawn)}
        return views if self._every else tuple(replace(view, symptoms=_wordy(view.symptoms)) for view in views)

    def _all(self, chart: Chart) -> Iterator[Drawn | Missing]:
        for drawn in super()._all(chart):
            if isinstance(drawn, Drawn) and chart.name in KEY_CHARTS:
                self.ranks[drawn.id] = KEY_CHARTS.index(chart.name)
            yield drawn


def _wordy(views: Iterable[FindingView]) -> tuple[FindingView, ...]:
    """The same without charts."""
    return tuple(replace(view, chart=None, symptoms=_wordy(view.symptoms)) for view in views)
