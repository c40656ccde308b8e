"""The report: one HTML file with its charts, its script and its style inside, which makes no request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import wording
from ..calibration import sentences
from ..charts.base import Section
from ..charts.tensor_history import KEYS, left_out
from ..charts.theme import CONFIG
from ..findings import SEVERITIES
from ..page.audits import audits
from ..page.card import run_facts
from ..page.configuration import configuration
from ..page.figures import Figures
from ..page.sparkline import loss_sparkline
from ..page.specs import script_json
from ..page.verdict import verdict_of
from ..templates import javascript, render

if TYPE_CHECKING:
    from ..findings import Finding, RunResult
    from ..run import Run


def render_report(run: Run, result: RunResult, *, tool: str) -> str:
    """The report of a run and its judgement as a page; `tool` is the program's name and version.

    Its size depends on the model and the findings, not on the number of steps: charts carry bands of at most 500 bins.
    """
    figures = Figures(run)
    instruments = [(section, title, intro, figures.section(section)) for section, title, intro in INSTRUMENTS]
    heatmaps = figures.section("layers")
    tensors = figures.section("tensors", _named(result.findings))
    return render(
        "report.html.jinja",
        tool=tool,
        run=run,
        result=result,
        verdict=verdict_of(result),
        severities=SEVERITIES,
        facts=run_facts(run),
        sparkline=loss_sparkline(run),
        findings=figures.findings(result.findings),
        instruments=instruments,
        heatmaps=heatmaps,
        tensors=tensors,
        tensor_keys=KEYS,
        tensors_left_out=left_out(run),
        audits=audits(run),
        configuration=configuration(run),
        config=script_json(CONFIG),
        javascript=javascript(),
        say=wording,
        measured=sentences,
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
    names: list[str] = []
    for finding in findings:
        names += [*finding.tensors, *_named(finding.explains)]
    return tuple(dict.fromkeys(names))
