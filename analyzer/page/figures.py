"""Figures ready for the page: drawn, written as JSON, and numbered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from markupsafe import Markup

from ..charts import CHARTS
from ..charts.base import Chart, Figure, Missing, Section
from ..charts.evidence import draw_evidence
from ..charts.tensor_history import TensorHistory
from .specs import spec_json

if TYPE_CHECKING:
    from ..findings import Finding
    from ..run import Run


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with its place in the page and its specification as JSON."""

    id: str
    figure: Figure
    spec: Markup


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding with its anchor, its chart, and the symptoms folded under it."""

    anchor: str
    finding: Finding
    chart: Drawn | Missing | None
    symptoms: tuple[FindingView, ...]


class Figures:
    """Draws the charts of one run; a chart that fails leaves a sentence in its place, never a lost report."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._numbers = count(1)

    def section(self, section: Section, first: tuple[str, ...] = ()) -> tuple[Drawn | Missing, ...]:
        """The figures of a section; `first` names tensors that must be among those drawn one by one."""
        charts = [_instance(chart, first) for chart in CHARTS if chart.section == section]
        return tuple(drawn for chart in charts for drawn in self._all(chart))

    def findings(self, findings: Iterable[Finding]) -> tuple[FindingView, ...]:
        """The findings with their charts; anchors are the rule's code, numbered where a rule fired more than once."""
        seen: dict[str, int] = {}
        return tuple(self._finding(finding, seen) for finding in findings)

    def _finding(self, finding: Finding, seen: dict[str, int]) -> FindingView:
        seen[finding.code] = seen.get(finding.code, 0) + 1
        anchor = finding.code if seen[finding.code] == 1 else f"{finding.code}-{seen[finding.code]}"
        chart = self._guarded("Evidence", lambda: draw_evidence(self._run, finding))
        return FindingView(anchor, finding, chart, tuple(self._finding(symptom, seen) for symptom in finding.explains))

    def _all(self, chart: Chart) -> Iterator[Drawn | Missing]:
        """The figures of a chart, up to the first that fails."""
        figures = iter(chart.figures(self._run))
        while True:
            drawn = self._guarded(chart.title, lambda: next(figures, None))
            if drawn is not None:
                yield drawn
            if drawn is None or isinstance(drawn, Missing):
                return

    def _guarded(self, title: str, draw: Callable[[], Figure | Missing | None]) -> Drawn | Missing | None:
        try:
            figure = draw()
            return (
                Drawn(f"chart-{next(self._numbers)}", figure, spec_json(figure.chart))
                if isinstance(figure, Figure)
                else figure
            )
        except Exception as error:
            return Missing(
                title,
                f"This chart could not be drawn ({type(error).__name__}: {error}); the rest of the report stands.",
            )


def _instance(chart: type[Chart], first: tuple[str, ...]) -> Chart:
    return TensorHistory(first) if chart is TensorHistory else chart()
