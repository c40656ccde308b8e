"""What is done for one run, in a process of its own: open, judge, compare with the last time, write the report."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path

import polars as pl

from ..config import Rules, Settings, choose
from ..detectors import DETECTORS
from ..detectors.run_not_finished import RunNotFinished
from ..engine import TOOL, judge_run
from ..errors import GlideslopeError, RunError
from ..files import write_page
from ..findings import Finding, RunResult
from ..outputs.html import render_report
from ..page.sparkline import loss_sparkline
from ..page.verdict import verdict_of
from ..precedence import every
from ..run import Run, open_run
from .summary import Entry, Mark

BINS = 40
"""Bins of a curve in the index: a thousand of them stand on one page."""


@dataclass(frozen=True, slots=True)
class Task:
    """A run to be reported: where it is, its name, where its report goes, and its entry of the last time."""

    path: Path
    name: str
    site: Path
    report: str
    fingerprint: str
    before: Entry | None


_rules: Rules | None = None


def prepare(settings: Settings) -> None:
    """Readies a process of the pool; it ends with the one that started it, however that ends."""
    global _rules
    _rules = choose(DETECTORS, settings)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of it, and stops in order
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """Waits for the end of a process, and then ends this one."""
    parent.join()
    os._exit(1)


def carry_out(task: Task) -> Entry:
    """The same as `report_run`, in a process that `prepare` readied."""
    return report_run(task, _rules or choose(DETECTORS, Settings()))


def report_run(task: Task, rules: Rules) -> Entry:
    """Judges a run and writes its report; what goes wrong becomes the problem of its entry."""
    begun = time.perf_counter()
    try:
        run = open_run(task.path)
        result = judge_run(run, rules, _last(task))
        entry = replace(_judged(task, run, result), problem=_written(task, run, result))
        entry = entry if not entry.problem else replace(entry, report=None)
    except RunError as error:
        entry = broken(task, str(error))
    except (Exception, pl.exceptions.PanicException) as error:
        entry = broken(task, _defect("It could not be judged", error))
    return replace(entry, seconds=round(time.perf_counter() - begun, 3))


def broken(task: Task, problem: str) -> Entry:
    """The entry of a run that could not be judged."""
    return Entry(
        run=task.name,
        report=None,
        fingerprint=task.fingerprint,
        judged=now(),
        verdict="not-judged",
        status="unreadable",
        running=False,
        steps=0,
        line="",
        problem=problem,
    )


def now() -> str:
    """The time as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _last(task: Task) -> RunResult | None:
    """The last judgement; None if there was none, or it was of nothing."""
    return None if task.before is None or task.before.problem else task.before.as_result()


def _written(task: Task, run: Run, result: RunResult) -> str:
    """Writes the report; the problem if that failed. It does not speak of the night before: the index does."""
    plain = replace(result, findings=tuple(_unmarked(item) for item in result.findings), baseline=None)
    try:
        write_page(task.site / task.report, render_report(run, plain, tool=TOOL))
    except GlideslopeError as error:
        return str(error)
    except (Exception, pl.exceptions.PanicException) as error:
        return _defect("Its report could not be made", error)
    return ""


def _defect(what: str, error: BaseException) -> str:
    """What went wrong through no fault of the run, in a line."""
    words = str(error).strip().partition("\n")[0]
    return f"{what} ({type(error).__name__}: {words}): a defect of glideslope."


def _unmarked(finding: Finding) -> Finding:
    return replace(finding, change=None, new_tensors=(), explains=tuple(_unmarked(item) for item in finding.explains))


def _judged(task: Task, run: Run, result: RunResult) -> Entry:
    verdict, line = verdict_of(result), loss_sparkline(run, bins=BINS)
    findings = list(every(result.findings))
    compared = result.baseline
    return Entry(
        run=task.name,
        report=task.report,
        fingerprint=task.fingerprint,
        judged=now(),
        verdict=result.verdict,
        status=run.status,
        running=still_running(run),
        steps=run.step_count,
        line=verdict.line,
        counts=verdict.counts,
        states=verdict.states,
        findings=_marks(findings),
        able=result.judged_by,
        new=None if compared is None else _marks(item for item in findings if item.change == "new"),
        gone=None
        if compared is None
        else tuple(Mark(g.code, g.name, g.severity, g.message, g.tensors) for g in compared.gone if not g.reason),
        started=run.manifest.started,
        sparkline=line,
        loss=line.end if line else None,
    )


def _marks(findings: Iterable[Finding]) -> tuple[Mark, ...]:
    return tuple(Mark(item.code, item.name, item.severity, item.message, item.tensors) for item in findings)


def still_running(run: Run) -> bool:
    """Whether a run seems to go on, as the rule on unfinished runs sees it."""
    return run.status == "unfinished" and any(item.severity == "note" for item in RunNotFinished().detect(run))
