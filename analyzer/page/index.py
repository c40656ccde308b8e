"""The index of several reports: the runs that need attention first. Its script only sorts and filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import wording
from ..files import quoted
from ..templates import render
from .card import ENDINGS
from .sparkline import Sparkline, loss_sparkline
from .verdict import VerdictView, counted, verdict_of

if TYPE_CHECKING:
    from ..findings import RunResult
    from ..run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """What became of a run since the last time it was judged. `fresh`: it had not been judged before."""

    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    fresh: bool = False

    def __bool__(self) -> bool:
        """Whether anything did."""
        return bool(self.new or self.gone or self.fresh)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A row: a run's name, its verdict and first finding, how far it came, and where its report lies.

    `href` is a path relative to the index, quoted here; None where there is no report, and `problem` says why. `since`
    is None where nothing is known of an earlier time. `started` is an ISO time; `running`: whether it still goes on.
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
    since: Since | None = None
    started: str = ""
    running: bool = False

    @property
    def findings(self) -> str:
        """`1 error and 2 notes`."""
        return counted(self.verdict.counts)

    @property
    def flags(self) -> str:
        """What the page filters by, beside the verdict."""
        known = {"changed": bool(self.since), "running": self.running, "broken": bool(self.problem)}
        return " ".join(name for name, holds in known.items() if holds)

    @property
    def day(self) -> str:
        """When it started, to the minute."""
        return self.started[:16].replace("T", " ")


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
        href=quoted(report),
        started=run.manifest.started or "",
    )


def render_index(
    entries: Iterable[IndexEntry], *, title: str, tool: str, lines: Sequence[str] = (), compared: bool = False
) -> str:
    """The page: failed runs first, then those not judged, then those that passed; by name within each.

    `lines` stand under the title; `compared`: whether there is a column for what changed since the last time.
    """
    rows = sorted(entries, key=lambda entry: (ORDER[entry.verdict.kind], entry.name))
    totals = {kind: sum(entry.verdict.kind == kind for entry in rows) for kind in ORDER}
    flags = {name: sum(name in entry.flags.split() for entry in rows) for name in ("changed", "running", "broken")}
    return render(
        "index.html.jinja",
        title=title,
        tool=tool,
        rows=rows,
        totals=totals,
        flags=flags,
        order=ORDER,
        lines=lines,
        compared=compared,
        say=wording,
    )


ORDER = {"fail": 0, "not-judged": 1, "pass": 2}
"""The verdicts by how much they need attention."""
