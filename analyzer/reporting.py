"""What the commands on runs do: judge them, deliver what was found, put reports and comparisons into their places."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .console import emit
from .engine import TOOL, judge_run
from .errors import GlideslopeError
from .files import append_text, link, write_page, write_text
from .outputs.style import Style, style_of
from .remote import is_uri
from .run import Run, open_run

if TYPE_CHECKING:
    from .config import Rules
    from .findings import Result
    from .outputs import Output
    from .outputs.html import Judged

Pictures = Literal["key", "all"]
"""Which charts a page without script shows as pictures."""


def judged(path: str, rules: Rules, baseline: Judged | None) -> Judged:
    """A run and its judgement. Raises RunError if it cannot be read."""
    run = open_run(path)
    return run, judge_run(run, rules, baseline[1] if baseline else None)


def deliver(result: Result, form: Output, output: Path | None) -> None:
    """The rendered result, to stdout or into a file, and what the format says beside it."""
    if output is None:
        emit(form.render(result, style_of(sys.stdout)))
    else:
        write_text(output, form.render(result, Style()))
    if form.step_summary and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        append_text(Path(summary), form.step_summary(result, Style()))


def beside(run: Run, name: str) -> Path:
    """Where what is made of a run goes unless told otherwise: into its directory."""
    if is_uri(run.path):
        raise GlideslopeError(f"{run.path} lies elsewhere: name a place for {name} with -o.")
    return Path(run.path) / name


def write_report(
    of: Judged, path: Path, *, force: bool = False, pictures: Pictures | None = None, baseline: Judged | None = None
) -> Path:
    """Writes the report of a run, with pictures in place of scripts if it is to have any, and returns its path."""
    from .outputs.html import render_report, render_static_report  # charts take a while to import

    if pictures is None:
        page = render_report(*of, tool=TOOL, baseline=baseline)
    else:
        page = render_static_report(*of, tool=TOOL, all_charts=pictures == "all", baseline=baseline)
    write_page(path, page, force=force)
    return path


def write_comparison(
    of: Sequence[Judged], output: Path | None, *, force: bool, pictures: Pictures | None = None
) -> Path:
    """Writes the comparison of runs, with links to those of their reports that lie where reports do."""
    from .outputs.comparison import render_comparison, render_static_comparison

    runs, results = [run for run, _ in of], [result for _, result in of]
    ending = "-static.html" if pictures else ".html"
    path = output or _together([run.path for run in runs]) / f"comparison{ending}"
    reports = [None if is_uri(run.path) else beside(run, f"report{ending}") for run in runs]
    hrefs = [link(path, report) if report and report.is_file() else None for report in reports]
    if pictures is None:
        page = render_comparison(runs, results, tool=TOOL, hrefs=hrefs)
    else:
        page = render_static_comparison(runs, results, tool=TOOL, hrefs=hrefs, all_charts=pictures == "all")
    write_page(path, page, force=force)
    return path


def _together(paths: Sequence[str]) -> Path:
    """The nearest directory that holds all runs. Raises GlideslopeError where there is none."""
    if any(map(is_uri, paths)):
        raise GlideslopeError("some of the runs lie elsewhere: name a file for the comparison with -o.")
    try:
        return Path(os.path.commonpath([Path(path).absolute().parent for path in paths]))
    except ValueError:  # other drives
        raise GlideslopeError("the runs have no directory in common: name a file for the comparison with -o.") from None
