"""The site: a report of every run under a root, made anew where something changed, an index, and a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..config import Settings
from ..engine import TOOL
from ..errors import GlideslopeError
from ..files import is_ours, write_page
from ..findings import Verdict
from ..page.nightly import render_site
from ..wording import plain, plural, visible
from .lock import locked
from .pool import in_processes
from .search import Found, find_runs, fingerprint, key_of
from .summary import Entry, Summary, read_summary, write_summary
from .work import Task, now

INDEX = "index.html"
REPORTS = "runs"
"""Folder of the site with a folder for each run, by its path under the root."""
CHECKPOINT = 30.0
"""Seconds after which what is done is written down, so that a night that is cut short is not lost."""

Work = Callable[[Iterable[Task], Settings, int], Iterator[tuple[Task, Entry]]]


@dataclass(frozen=True, slots=True)
class Night:
    """What a nightly was asked to do."""

    root: Path
    site: Path
    settings: Settings
    jobs: int


def make_site(night: Night, show: Callable[[str], None], work: Work | None = None) -> Summary:
    """Brings the site up to date, and returns its summary. `show` is told what is going on; `work`
    judges the runs, in several processes by default.

    Raises GlideslopeError, before anything is written, where there is no run, where another nightly is at work, or
    where files are in the way that are not ours.
    """
    if not night.root.is_dir():
        what = "is a file" if night.root.exists() else "does not exist"
        raise GlideslopeError(f"{night.root} {what}: give the directory that holds the runs.")
    show(f"searching {night.root}")
    found = find_runs(night.root, night.site)
    if not found.runs:
        raise GlideslopeError(f"{night.root} holds no run: give the directory that holds the runs.")
    with locked(night.site):
        before = read_summary(night.site)
        index = night.site / INDEX
        if index.exists() and not is_ours(index):
            raise GlideslopeError(f"{index} was not written by glideslope: name another directory with -o.")
        return _up_to_date(night, found, before, show, work or in_processes)


def _up_to_date(night: Night, found: Found, before: Summary | None, show: Callable[[str], None], work: Work) -> Summary:
    known = {entry.run: entry for entry in before.runs} if before else {}
    tasks = [_task(night, run, known, key_of(TOOL, night.settings)) for run in found.runs]
    entries = {task.name: task.before for task in tasks if task.before is not None}
    due = [task for task in tasks if _due(task)]
    finished, saved = 0, time.monotonic()
    try:
        for task, entry in work(due, night.settings, night.jobs):
            entries[task.name] = entry
            finished += 1
            show(f"[{finished}/{len(due)}] {task.name}")
            if time.monotonic() - saved > CHECKPOINT:
                write_summary(_summary(night, found, entries, (finished, len(due)), before), night.site)
                saved = time.monotonic()
    finally:
        summary = _summary(night, found, entries, (finished, len(due)), before)
        write_summary(summary, night.site)
        write_page(night.site / INDEX, render_site(summary, tool=TOOL))
    return summary


def _task(night: Night, run: Path, known: dict[str, Entry], key: str) -> Task:
    """What there would be to do for a run; an empty fingerprint where it cannot be listed."""
    name = _name(night, run)
    try:
        mark = fingerprint(night.root / run, key)
    except OSError:
        mark = ""
    return Task(night.root / run, name, night.site, f"{REPORTS}/{name}/report.html", mark, known.get(name))


def _name(night: Night, run: Path) -> str:
    """A run's path under the root; the root's own name where that is a run itself."""
    return run.as_posix() if run.parts else night.root.resolve().name


def _due(task: Task) -> bool:
    """Whether a run is to be judged: it changed, it was still going on, or it could not be judged the last time."""
    last = task.before
    if last is None or last.problem or last.running or not task.fingerprint or last.fingerprint != task.fingerprint:
        return True
    return not (task.site / task.report).is_file()


def _summary(
    night: Night, found: Found, entries: dict[str, Entry], done: tuple[int, int], before: Summary | None
) -> Summary:
    present = {_name(night, run) for run in found.runs}
    return Summary(
        tool=TOOL,
        root=str(night.root),
        made=now(),
        fail_on=night.settings.fail_on,
        reported=done[0],
        waiting=done[1] - done[0],
        runs=tuple(entries[name] for name in sorted(entries)),
        lost=tuple(entry.run for entry in before.runs if entry.run not in present) if before else (),
        closed=tuple(path.as_posix() for path in found.closed),
    )


def exit_verdict(summary: Summary) -> Verdict:
    """The verdict over all runs; one that still goes on counts only with what was found."""
    verdicts = {entry.verdict for entry in summary.runs if entry.verdict != "not-judged" or not entry.running}
    return "fail" if "fail" in verdicts else "not-judged" if "not-judged" in verdicts else "pass"


def told(summary: Summary, site: Path) -> str:
    """What to say at the end: where the index is, how the runs fared, and which are broken."""
    totals = summary.document()["totals"]
    fared = f"{totals['fail']} failed, {totals['not-judged']} not judged, {totals['pass']} passed"
    going = f", {totals['running']} still being written" if totals["running"] else ""
    unchanged = len(summary.runs) - summary.reported
    lines = [
        str(site / INDEX),
        f"{plural(len(summary.runs), 'run')}: {fared}{going}; {summary.reported} judged anew, {unchanged} unchanged",
    ]
    lines += [f"  {visible(entry.run)}: {visible(entry.problem)}" for entry in summary.runs if entry.problem]
    return plain("\n".join(lines)) + "\n"
