"""The index of a nightly site, from its summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ..files import quoted
from ..wording import count, listed, plural
from .card import ENDINGS
from .index import IndexEntry, Since, render_index
from .verdict import WORDS, VerdictView

if TYPE_CHECKING:
    from ..nightly.summary import Entry, Mark, Summary

NIGHT = timedelta(hours=12)
"""How long a change counts as that of the last night."""


def render_site(summary: Summary, *, tool: str) -> str:
    """The page of a night."""
    title = summary.root.rstrip("/").rpartition("/")[2] or summary.root
    rows = [_row(entry, summary.made) for entry in summary.runs]
    return render_index(rows, title=title, tool=tool, lines=tuple(_lines(summary)), compared=True)


def _lines(summary: Summary) -> Iterator[str]:
    """When it was made and of what, and what is not in the table."""
    when = summary.made[:16].replace("T", " ")
    runs = plural(len(summary.runs), "run")
    yield f"{runs} under {summary.root}, {when} UTC: {count(summary.reported)} judged anew, the others had not changed."
    if summary.waiting:
        yield f"It was cut short: {plural(summary.waiting, 'run')} still to be judged."
    if summary.lost:
        yield f"No longer there: {listed(summary.lost, 5)}. Their reports were left where they are."
    if summary.closed:
        yield f"Could not be searched: {listed(summary.closed, 5)}; check the permissions."


def _row(entry: Entry, made: str) -> IndexEntry:
    kind = entry.verdict
    return IndexEntry(
        name=entry.run,
        verdict=VerdictView(kind, WORDS[kind], entry.line, dict(entry.counts), dict(entry.states)),
        code=entry.first,
        anchor=f"#{entry.first}" if entry.first else "",
        steps=entry.steps,
        status="Still being written" if entry.running else ENDINGS.get(entry.status, "Unreadable"),
        sparkline=entry.sparkline,
        href=quoted(entry.report) if entry.report else None,
        problem=entry.problem,
        since=_since(entry) if _recent(entry.judged, made) else None,
        started=entry.started or "",
        running=entry.running,
    )


def _since(entry: Entry) -> Since | None:
    if entry.problem:
        return None
    if entry.new is None or entry.gone is None:
        return Since(fresh=True)
    return Since(new=_codes(entry.new), gone=_codes(entry.gone))


def _codes(marks: Iterable[Mark]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(mark.code for mark in marks))


def _recent(judged: str, made: str) -> bool:
    try:
        return datetime.fromisoformat(made) - datetime.fromisoformat(judged) < NIGHT
    except (ValueError, TypeError):
        return False
