"""The command line: commands only read arguments; what goes wrong becomes a sentence and an exit code in `main`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recorder import __version__

from .console import Progress, complain, emit, prepare
from .errors import GlideslopeError, RunError

if TYPE_CHECKING:
    from .config import Rules
    from .findings import RunResult, Verdict
    from .outputs.html import Judged
    from .run import Run

EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "not-judged": 2}
"""What `check` exits with."""
BAD = 2
"""Whatever else goes wrong, so that 1 always means findings."""

app = typer.Typer(
    name="glideslope",
    help="Read what a PyTorch training recorded, judge it by rules, and write reports.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Runs = Annotated[list[str], typer.Argument(metavar="RUN", show_default=False, help="run directories, or URIs")]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="configuration instead of the nearest")]
Against = Annotated[
    str | None,
    typer.Option("--baseline", metavar="RUN", help="a run to compare with: findings are new, known or gone"),
]
Codes = list[str] | None


def _codes(flag: str, words: str) -> Any:
    return typer.Option(flag, metavar="CODES", help=f"{words}: codes or prefixes, like GRD,NUM001; may be repeated")


def _version(wanted: bool) -> None:
    if wanted:
        emit(f"glideslope {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """The options before the command."""


@app.command()
def check(
    runs: Runs,
    fail_on: Annotated[str | None, typer.Option(metavar="SEVERITY", help="error (default), warning or note")] = None,
    select: Annotated[Codes, _codes("--select", "rules to apply")] = None,
    ignore: Annotated[Codes, _codes("--ignore", "rules to leave out")] = None,
    require: Annotated[Codes, _codes("--require", "rules that must be able to judge")] = None,
    format: Annotated[  # noqa: A002
        str, typer.Option(metavar="FORMAT", help="text, json, github (annotations), junit (XML) or markdown")
    ] = "text",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write there instead of stdout; missing directories are made")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the report of the run there as well")
    ] = None,
    baseline: Against = None,
    new_only: Annotated[bool, typer.Option("--new-only", help="fail only on what the baseline does not have")] = False,
    config: Config = None,
) -> None:
    """Judge runs: exits 0 clean, 1 with findings at or above --fail-on, 2 if it could not judge.

    With --format github, a summary in Markdown is appended to the file that $GITHUB_STEP_SUMMARY names.
    """
    from .engine import combine
    from .outputs import named
    from .reporting import deliver, write_report

    form = named(format)
    if report is not None and len(runs) > 1:
        raise GlideslopeError("--report writes the report of one run: give one run, or use `glideslope report`.")
    if new_only and baseline is None:
        raise GlideslopeError("--new-only compares with a run: name it with --baseline.")
    rules = replace(_rules(config, select=select, ignore=ignore, require=require, fail_on=fail_on), new_only=new_only)
    opened, results = None, []
    with Progress() as progress:
        measure = _judged_baseline(baseline, rules, progress)
        for number, path in enumerate(runs, 1):
            progress.show(f"[{number}/{len(runs)}] {path}")
            opened, judged = _judge_or_complain(path, rules, measure)
            results.append(judged)
    result = combine(results, rules.fail_on, new_only=new_only)
    code = EXIT_CODES[result.verdict]
    try:
        deliver(result, form, output)
        if report is not None and opened is not None:
            write_report((opened, results[0]), report, baseline=measure)
    except GlideslopeError as error:  # what was found still counts
        complain(str(error))
        code = code or BAD
    raise typer.Exit(code)


@app.command(name="report")
def write_reports(
    runs: Runs,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="of one run, its report (default: report.html in the run directory, report-static.html with "
            "--static); of several, only their comparison (default: comparison.html or comparison-static.html in the "
            "directory that holds them)",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite a file that glideslope did not write")] = False,
    static: Annotated[
        bool, typer.Option("--static", help="pictures and no script: the charts that matter most, small enough to mail")
    ] = False,
    all_charts: Annotated[bool, typer.Option("--all-charts", help="with --static: every chart")] = False,
    baseline: Against = None,
    config: Config = None,
) -> None:
    """Write the report of each run, and of several their comparison: HTML files that work offline."""
    from .reporting import Pictures, beside, judged, write_comparison, write_report

    if all_charts and not static:
        raise GlideslopeError("--all-charts is for --static: without it the report has every chart.")
    pictures: Pictures | None = ("all" if all_charts else "key") if static else None
    rules = _rules(config)
    if baseline is not None and len(runs) > 1:
        raise GlideslopeError("--baseline is for one run; several runs are compared with each other without it.")
    with Progress() as progress:
        measure = _judged_baseline(baseline, rules, progress)
    done: list[Judged] = []
    code = 0
    for name in runs:
        try:
            run, result = judged(name, rules, measure)
            done.append((run.afresh(), result))
            if len(runs) == 1 or output is None:
                path = output or beside(run, "report-static.html" if static else "report.html")
                emit(f"{write_report((run, result), path, force=force, pictures=pictures, baseline=measure)}\n")
        except GlideslopeError as error:
            complain(str(error))
            code = BAD
    if len(done) > 1:
        emit(f"{write_comparison(done, output, force=force, pictures=pictures)}\n")
    elif len(runs) > len(done) == 1 and output is not None:
        complain("of one run alone there is no comparison.")
    raise typer.Exit(code)


@app.command()
def nightly(
    root: Annotated[Path, typer.Argument(metavar="ROOT", show_default=False, help="directory that holds the runs")],
    site: Annotated[
        Path, typer.Option("-o", "--output", metavar="SITE", help="directory of the reports; it is made if missing")
    ],
    fail_on: Annotated[
        str | None, typer.Option(metavar="SEVERITY", help="exit as `check` does, by findings of this severity")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, metavar="N", help="processes; default: one a core")
    ] = None,
    config: Config = None,
) -> None:
    """Report every run under a directory that changed since the last time, and write an index of all of them.

    Exits 0 when the site was written. With --fail-on: 1 with findings at or above it in any run, 2 if one that has
    ended could not be judged.
    """
    from .config import choose, load
    from .detectors import DETECTORS
    from .nightly.pool import cores
    from .nightly.site import Night, exit_verdict, make_site, told

    settings = load(config).overridden(fail_on=fail_on)
    choose(DETECTORS, settings)  # what is wrong with the configuration is told before anything is done
    with Progress() as progress:
        summary = make_site(Night(root, site, settings, jobs or cores()), progress.show)
    emit(told(summary, site))
    raise typer.Exit(EXIT_CODES[exit_verdict(summary)] if fail_on else 0)


@app.command()
def rule(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", show_default=False, help="a code or a name")] = None,
    config: Config = None,
) -> None:
    """Explain a rule, or list the rules, those of the configuration among them."""
    from . import rules
    from .config import all_rules, load
    from .detectors import DETECTORS
    from .outputs.style import style_of

    known = all_rules(DETECTORS, load(config))
    found = rules.find(code, known) if code else known
    one = code and len(found) == 1
    emit((rules.page(found[0], style_of(sys.stdout)) if one else rules.listing(found)) + "\n")


@app.command()
def info(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False, help="run directory, or URI")],
    format: Annotated[str, typer.Option(metavar="FORMAT", help="text or json")] = "text",  # noqa: A002
) -> None:
    """Tell what a run recorded, how complete it is, and why columns are empty."""
    from .info import rendering
    from .run import open_run

    render = rendering(format)
    emit(render(open_run(run)))


@app.command(name="export")
def write_tables(
    path: Annotated[str, typer.Argument(metavar="RUN", show_default=False, help="run directory, or URI")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="default: export in the run directory; it is made"),
    ] = None,
    format: Annotated[  # noqa: A002
        str, typer.Option(metavar="FORMAT", help="csv (lists as JSON arrays) or parquet")
    ] = "csv",
    charts: Annotated[bool, typer.Option("--charts", help="every chart as SVG as well, in a folder charts")] = False,
    force: Annotated[bool, typer.Option("--force", help="overwrite files that are there")] = False,
) -> None:
    """Write the tables with their derived columns, and columns.csv, which says what each column is."""
    from .export import export
    from .reporting import beside
    from .run import open_run

    run = open_run(path)
    directory = output or beside(run, "export")
    with Progress() as progress:
        written = export(run, directory, format, progress.show, force=force, charts=charts)
    emit("".join(f"{item}\n" for item in written))


@app.command()
def demo(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="where to put it")] = Path("glideslope-demo"),
) -> None:
    """Record real trainings on handwritten digits, healthy and faulty, and write their reports."""
    from .demo import fly

    with Progress(always=True) as progress:
        closing = fly(directory, progress.show)
    emit(closing)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line and exits: with the command's code, or with 2 and one sentence for whatever went wrong."""
    prepare()
    try:
        app(args=arguments, prog_name="glideslope")
    except GlideslopeError as error:
        complain(str(error))
    except MemoryError:
        complain("there is not enough memory to read this run: use a machine that has more.")
    except Exception:
        traceback.print_exc()
        complain("this is a defect of glideslope: please report it with the lines above.")
    sys.exit(BAD)


def _rules(config: Path | None, *, fail_on: str | None = None, **codes: Codes) -> Rules:
    """The rules by the configuration, what the flags say above it."""
    from .config import choose, load
    from .detectors import DETECTORS

    split = {name: _split(values or ()) for name, values in codes.items()}
    return choose(DETECTORS, load(config).overridden(fail_on=fail_on, **split))


def _split(values: Iterable[str]) -> tuple[str, ...]:
    """Codes that were given one by one or with commas between them."""
    return tuple(code.strip().upper() for value in values for code in value.split(",") if code.strip())


def _judged_baseline(path: str | None, rules: Rules, progress: Progress) -> Judged | None:
    """The baseline and its judgement, if there is one. Raises RunError if it cannot be read."""
    if path is None:
        return None
    from .reporting import judged

    progress.show(f"baseline {path}")
    return judged(path, rules, None)


def _judge_or_complain(path: str, rules: Rules, baseline: Judged | None) -> tuple[Run | None, RunResult]:
    """A run and its judgement; of one that cannot be read only the latter, and a sentence on stderr."""
    from .engine import unreadable
    from .reporting import judged

    try:
        return judged(path, rules, baseline)
    except RunError as error:
        complain(str(error))
        return None, unreadable(path, str(error))
