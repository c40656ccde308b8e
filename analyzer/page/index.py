"""The index of several reports: a page without any script, the runs that need attention first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from .. import wording
from ..templates import render
from .card import ENDINGS
from .sparkline import Sparkline, loss_sparkline
from .verdict import VerdictView, counted, verdict_of

if TYPE_CHECKING:
    from ..findings import RunResult
    from ..run import Run


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A row: a run's name, its verdict and first finding, how far it came, and where its report lies.

    `href` is a path relative to the index, quoted here; None where there is no report, and `problem` says why.
    """

    name: str
    verdict: VerdictView
    code: str
    anchor: str
    steps: int
    status: str
    sparkline: Sparkline | None
    href: str | None
    problem: str = ""

    @property
    def findings(self) -> str:
        """`1 error and 2 notes`."""
        return counted(self.verdict.counts)


def index_entry(run: Run, result: RunResult, report: str) -> IndexEntry:
    """The row of a run whose report lies at `report`, a path relative to the index with forward slashes."""
    first = result.findings[0].code if result.findings else ""
    return IndexEntry(
        name=run.name,
        verdict=verdict_of(result),
        code=first,
        anchor=f"#{first}" if first else "",
        steps=run.step_count,
        status=ENDINGS[run.status],
        sparkline=loss_sparkline(run),
        href=quote(report, safe="/"),
    )


def unreadable_entry(name: str, result: RunResult) -> IndexEntry:
    """The row of a run that could not be opened; the result's problems say why."""
    problem = " ".join(result.problems)
    return IndexEntry(name, verdict_of(result), "", "", 0, "Unreadable", None, None, problem)


def render_index(entries: Iterable[IndexEntry], *, title: str, tool: str) -> str:
    """The page: failed runs first, then those not judged, then those that passed; by name within each."""
    order = {"fail": 0, "not-judged": 1, "pass": 2}
    rows = sorted(entries, key=lambda entry: (order[entry.verdict.kind], entry.name))
    totals = {kind: sum(entry.verdict.kind == kind for entry in rows) for kind in order}
    return render("index.html.jinja", title=title, tool=tool, rows=rows, totals=totals, say=wording)
