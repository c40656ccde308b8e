"""Figures ready for the page: drawn, written as JSON, and with an anchor; findings with the charts they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from ..charts import CHARTS
from ..charts.base import Chart, Figure, Missing, Section
from ..charts.evidence import draw_evidence
from ..charts.tensor_history import TensorHistory
from .specs import spec_json

if TYPE_CHECKING:
    from ..charts.binning import Span
    from ..findings import Finding
    from ..run import Run


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with its place in the page, and its specification as JSON or, for a page without script, a picture."""

    id: str
    figure: Figure
    spec: Markup | None = None
    picture: Markup | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """What a section of the page shows, and what it cannot."""

    drawn: tuple[Drawn, ...]
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding with its anchor, its own chart, the chart of the page that shows more, and its symptoms."""

    anchor: str
    finding: Finding
    chart: Drawn | Missing | None
    elsewhere: Drawn | None
    symptoms: tuple[FindingView, ...]

    @property
    def span(self) -> Span | None:
        """The steps that its own chart shows, if these are a part of the run."""
        return self.chart.figure.span if isinstance(self.chart, Drawn) else None


Draw = Callable[[str, Figure], Drawn]
"""Gives a figure, under its anchor, the form that a page takes."""


def live(anchor: str, figure: Figure) -> Drawn:
    """The figure for a page whose script draws it."""
    return Drawn(anchor, figure, spec_json(figure.chart))


class Figures:
    """Draws the figures of a run. A chart that fails becomes a sentence: the rest of the report stands.

    Findings lead to the charts of the sections that were drawn before them.
    """

    def __init__(self, run: Run, charts: Sequence[Chart] = CHARTS, draw: Draw = live) -> None:
        self._run = run
        self._charts = charts
        self._draw = draw
        self._by_column: dict[str, Drawn] = {}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Titles of the charts that this page does not have."""
        return tuple(chart.title for chart in CHARTS if chart not in self._charts)

    def section(self, section: Section, first: tuple[str, ...] = ()) -> Panel:
        """The figures of a section; `first` names tensors that must be among those drawn one by one."""
        charts = [_naming(chart, first) for chart in self._charts if chart.section == section]
        found = [drawn for chart in charts for drawn in self._all(chart)]
        return Panel(
            tuple(item for item in found if isinstance(item, Drawn)),
            tuple(item for item in found if isinstance(item, Missing)),
        )

    def findings(self, findings: Iterable[Finding]) -> tuple[FindingView, ...]:
        """The findings with their charts; anchors are the rule's code, numbered where a rule fired more than once."""
        seen: dict[str, int] = {}
        return tuple(self._finding(finding, seen) for finding in findings)

    def _finding(self, finding: Finding, seen: dict[str, int]) -> FindingView:
        seen[finding.code] = seen.get(finding.code, 0) + 1
        anchor = finding.code if seen[finding.code] == 1 else f"{finding.code}-{seen[finding.code]}"
        chart = self._guarded("Evidence", f"evidence-{anchor}", lambda: draw_evidence(self._run, finding))
        ref = finding.chart
        elsewhere = self._by_column.get(f"{ref.table}.{ref.column}") if ref else None
        symptoms = tuple(self._finding(symptom, seen) for symptom in finding.explains)
        return FindingView(anchor, finding, chart, elsewhere, symptoms)

    def _all(self, chart: Chart) -> Iterator[Drawn | Missing]:
        """The figures of a chart, up to the first that fails."""
        figures, number = iter(chart.figures(self._run)), 1
        while True:
            anchor = f"chart-{chart.name}" if number == 1 else f"chart-{chart.name}-{number}"
            drawn = self._guarded(chart.title, anchor, lambda: next(figures, None))
            if isinstance(drawn, Drawn):
                self._by_column = dict.fromkeys(chart.shows, drawn) | self._by_column
            if drawn is not None:
                yield drawn
            if drawn is None or isinstance(drawn, Missing):
                return
            number += 1

    def _guarded(self, title: str, anchor: str, draw: Callable[[], Figure | Missing | None]) -> Drawn | Missing | None:
        try:
            with debug_mode(False):  # each part of a chart would be validated against the schema of Vega-Lite
                figure = draw()
                return self._draw(anchor, figure) if isinstance(figure, Figure) else figure
        except Exception as error:
            return Missing(
                title,
                f"This chart could not be drawn ({type(error).__name__}: {error}); the rest of the report stands.",
            )


def _naming(chart: Chart, first: tuple[str, ...]) -> Chart:
    return TensorHistory(first) if isinstance(chart, TensorHistory) else chart
