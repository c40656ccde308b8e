"""The report: one HTML file with its charts, its script and its style inside, which makes no request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from .. import wording
from ..baseline import changes
from ..bundle import javascript
from ..calibration import sentences
from ..charts.base import Section
from ..charts.tensor_history import KEYS, left_out
from ..charts.theme import CONFIG
from ..comparison.build import compare
from ..findings import SEVERITIES
from ..page.audits import audits
from ..page.card import run_facts
from ..page.comparison import ComparisonView, comparison_view
from ..page.configuration import configuration, settings
from ..page.figures import Draw, Figures, live
from ..page.sparkline import loss_sparkline
from ..page.specs import script_json
from ..page.still import Pictures, Stills
from ..page.verdict import verdict_of
from ..precedence import every
from ..templates import render

if TYPE_CHECKING:
    from ..findings import Finding, RunResult
    from ..run import Run


Judged = tuple["Run", "RunResult"]
"""A run and its judgement."""


def render_report(run: Run, result: RunResult, *, tool: str, baseline: Judged | None = None) -> str:
    """The report of a run and its judgement as a page; `tool` is the program's name and version.

    With the baseline that the judgement was compared with, the page lays the two runs side by side as well. Its size
    depends on the model and the findings, not on the number of steps: charts carry bands of at most 500 bins.
    """
    against = _against((run, result), baseline, live)
    return _rendered(run, result, Figures(run), against, script=script(), tool=tool)


def render_static_report(
    run: Run, result: RunResult, *, tool: str, all_charts: bool = False, baseline: Judged | None = None
) -> str:
    """The same page without script: pictures for charts, those that matter most unless all are wanted.

    With the most important ones it keeps to the size of a mail, unless its words alone come near that.
    """
    pictures = Pictures(every=all_charts)
    figures = Stills(run, pictures, every=all_charts)
    against = _against((run, result), baseline, pictures.draw if all_charts else None)
    return pictures.fill(_rendered(run, result, figures, against, script=None, tool=tool), figures.ranks)


@dataclass(frozen=True, slots=True)
class Script:
    """What a page needs to draw its charts: their common look, and the libraries."""

    config: Markup
    javascript: Markup


def script() -> Script:
    """The script of a page with charts that answer to the pointer."""
    return Script(script_json(CONFIG), javascript())


def _against(judged: Judged, baseline: Judged | None, draw: Draw | None) -> ComparisonView | None:
    """The run beside its baseline."""
    if baseline is None:
        return None
    runs, results = (judged[0], baseline[0]), (judged[1], baseline[1])
    return comparison_view(compare(runs, results), runs, results, draw=draw)


def _rendered(
    run: Run, result: RunResult, figures: Figures, against: ComparisonView | None, *, script: Script | None, tool: str
) -> str:
    panels = [(section, title, intro, figures.section(section)) for section, title, intro in INSTRUMENTS]
    heatmaps = figures.section("layers")
    tensors = figures.section("tensors", _named(result.findings))
    return render(
        "report.html.jinja",
        run=run,
        result=result,
        verdict=verdict_of(result),
        severities=SEVERITIES,
        facts=run_facts(run),
        sparkline=loss_sparkline(run),
        findings=figures.findings(result.findings),
        instruments=[panel for panel in panels if panel[-1].drawn or panel[-1].missing],
        heatmaps=heatmaps,
        tensors=tensors,
        tensor_keys=KEYS,
        tensors_left_out=left_out(run),
        audits=audits(run),
        configuration=configuration(run),
        settings=settings(run),
        say=wording,
        measured=sentences,
        changes=changes(result),
        against=against,
        left_out=figures.left_out,
        script=script,
        tool=tool,
    )


INSTRUMENTS: tuple[tuple[Section, str, str], ...] = (
    ("learning", "Learning", "What came of it."),
    ("step-size", "Step size", "Whether the steps are too short or too long, and how far they have led."),
    ("gradients", "Gradients", "How noisy they are, and whether they reach every layer and the optimizer."),
    ("curvature", "Curvature", "How sharp the valley is that the training descends."),
    ("hyperparameters", "Hyperparameters", "What the schedule really did."),
    ("data", "Data", "What the model was given, and what it made of it."),
    ("units", "Units", "Which of them take no part."),
    ("performance", "Performance", "How fast it went, and where the time was spent."),
)
"""What came of the training, and then Cockpit's instruments in its order."""


def _named(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The tensors that findings and their symptoms speak of."""
    return tuple(dict.fromkeys(name for finding in every(findings) for name in finding.tensors))
