"""The command line by exit code and output; rules are small ones, so that only the command line is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.rules import Documented, finding, rule
from support.runs import write_run

import analyzer.detectors
from analyzer import __version__
from analyzer.cli import main
from analyzer.findings import NotApplicable

ROOT = Path(__file__).parents[2]
CLEAN, MILD, NEEDY = (
    rule("LOS001"),
    rule("GRD001", [finding("GRD001", "warning")]),
    rule("CUR001", NotApplicable("short")),
)


class Ended:
    """How a command line ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def complaint(self) -> str:
        """The one line on stderr."""
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.removeprefix("glideslope: ").rstrip("\n")


@pytest.fixture
def glideslope(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Runs a command line in an empty directory, with rules of which one warns, one passes and one cannot judge."""
    monkeypatch.setattr(analyzer.detectors, "DETECTORS", (MILD, CLEAN, NEEDY, Documented()))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_run(tmp_path / "digits", {"loss": [2.0, 1.0]})


# check


def test_check_passes(glideslope, run_dir: Path) -> None:
    ended = glideslope("check", run_dir)
    assert ended.code == 0
    assert ended.out.startswith(f"PASS  {run_dir}  2 steps, completed\n")
    assert ended.out.endswith(
        "PASS: 0 errors, 1 warning, 0 notes in 1 run (fails on error); 2 of 4 rules could not judge\n"
    )
    assert ended.err == ""


def test_check_fails_on_what_it_is_told_to(glideslope, run_dir: Path) -> None:
    assert glideslope("check", run_dir, "--fail-on", "warning").code == 1
    assert glideslope("check", run_dir, "--fail-on", "note").code == 1
    assert glideslope("check", run_dir, "--fail-on", "note", "--ignore", "GRD").code == 0


def test_check_cannot_judge_without_a_rule_that_applies(glideslope, run_dir: Path) -> None:
    ended = glideslope("check", run_dir, "--select", "CUR")
    assert ended.code == 2
    assert "CUR001 fault-cur001 not applicable: short" in ended.out
    assert glideslope("check", run_dir, "--require", "CUR001").code == 2
    assert glideslope("check", run_dir, "--require", "los001").code == 0


def test_a_check_that_leaves_out_every_rule_says_so(glideslope, run_dir: Path) -> None:
    ended = glideslope("check", run_dir, "--ignore", "LOS,GRD,CUR,DOC")
    assert ended.code == 2
    assert "Not judged: no rule about the training is selected (select, ignore)." in ended.out


def test_codes_may_be_repeated_or_joined_by_commas(glideslope, run_dir: Path) -> None:
    joined = glideslope("check", run_dir, "--select", "LOS, CUR001")
    assert joined.out == glideslope("check", run_dir, "--select", "LOS", "--select", "CUR001").out
    assert "1 passed, 1 not applicable" in joined.out


def test_the_configuration_of_the_directory_counts_and_flags_stand_above_it(glideslope, run_dir, tmp_path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.glideslope]\nfail-on = "warning"\n')
    assert glideslope("check", run_dir).code == 1
    assert glideslope("check", run_dir, "--fail-on", "error").code == 0
    (tmp_path / "mild.toml").write_text('[rules.GRD001]\nseverity = "note"\n')
    assert glideslope("check", run_dir, "--config", "mild.toml", "--fail-on", "warning").code == 0


def test_json_goes_to_stdout_or_to_a_file(glideslope, run_dir: Path, tmp_path: Path) -> None:
    printed = glideslope("check", run_dir, "--format", "json")
    document = json.loads(printed.out)
    assert (document["verdict"], document["tool"]) == ("pass", f"glideslope {__version__}")
    written = glideslope("check", run_dir, "--format", "json", "--output", "new/result.json")
    assert (written.code, written.out) == (0, "")
    assert json.loads((tmp_path / "new" / "result.json").read_text()) == document


@pytest.mark.parametrize(
    ("form", "start"), [("junit", "<?xml"), ("markdown", "## ✅ glideslope: pass"), ("github", "::")]
)
def test_other_formats_go_there_too(glideslope, run_dir: Path, tmp_path: Path, form: str, start: str) -> None:
    printed = glideslope("check", run_dir, "--format", form)
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith(start)
    assert glideslope("check", run_dir, "--format", form, "--output", "result").out == ""
    assert (tmp_path / "result").read_text(encoding="utf-8") == printed.out
    assert glideslope("check", run_dir, "--format", form, "--fail-on", "warning").code == 1


def test_the_summary_of_a_github_step_is_added_to_its_file(
    glideslope, run_dir: Path, tmp_path: Path, monkeypatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("What an earlier command said.\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    markdown = glideslope("check", run_dir, "--format", "markdown").out
    assert summary.read_text() == "What an earlier command said.\n"
    ended = glideslope("check", run_dir, "--format", "github")
    assert ended.out.startswith("::warning title=GRD001 fault-grd001 in ")
    assert summary.read_text(encoding="utf-8") == f"What an earlier command said.\n{markdown}"


def test_a_summary_that_cannot_be_written_is_told_and_findings_still_count(glideslope, run_dir, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(run_dir))
    ended = glideslope("check", run_dir, "--format", "github")
    assert (ended.code, "cannot be written" in ended.complaint) == (2, True)
    assert glideslope("check", run_dir, "--format", "github", "--fail-on", "note").code == 1


def test_a_run_that_cannot_be_read_does_not_keep_others_from_being_judged(glideslope, run_dir: Path) -> None:
    ended = glideslope("check", "gone", run_dir, "--format", "json")
    assert (ended.code, ended.complaint.split(":")[0]) == (2, "gone does not exist")
    document = json.loads(ended.out)
    assert [(item["run"], item["status"], item["verdict"]) for item in document["runs"]] == [
        ("gone", "unreadable", "not-judged"),
        (str(run_dir), "completed", "pass"),
    ]
    assert glideslope("check", "gone", run_dir, "--fail-on", "warning").code == 1


def test_what_cannot_be_written_is_told_and_findings_still_count(glideslope, run_dir: Path) -> None:
    (run_dir / "file").write_text("")
    ended = glideslope("check", run_dir, "--output", run_dir / "file" / "x")
    assert (ended.code, "cannot be written" in ended.complaint) == (2, True)
    assert glideslope("check", run_dir, "--fail-on", "note", "--output", run_dir / "file" / "x").code == 1


def test_a_rule_that_crashes_is_not_a_pass(glideslope, run_dir: Path, monkeypatch) -> None:
    monkeypatch.setattr(analyzer.detectors, "DETECTORS", (CLEAN, rule("STP001", ValueError("odd"))))
    ended = glideslope("check", run_dir)
    assert ended.code == 2
    assert "STP001 fault-stp001 failed: ValueError: odd" in ended.out


# Against a baseline


def test_a_baseline_marks_findings_and_only_new_ones_fail_if_asked_for(glideslope, run_dir: Path, tmp_path) -> None:
    write_run(tmp_path / "base", {"loss": [2.0, 1.0]})
    plain = glideslope("check", run_dir, "--baseline", "base", "--fail-on", "warning")
    assert plain.code == 1
    assert "  warning  GRD001 fault-grd001  known\n" in plain.out
    assert plain.out.endswith("could not judge; against base: 0 new, 1 known, 0 gone\n")
    only_new = glideslope("check", run_dir, "--baseline", "base", "--fail-on", "warning", "--new-only")
    assert (only_new.code, only_new.out.splitlines()[0][:4]) == (0, "PASS")
    document = json.loads(glideslope("check", run_dir, "--baseline", "base", "--new-only", "--format", "json").out)
    assert (document["new_only"], document["runs"][0]["findings"][0]["change"]) == (True, "known")
    assert document["runs"][0]["baseline"] == {"run": "base", "verdict": "pass", "gone": [], "unjudged": []}


def test_only_new_findings_fail_where_the_baseline_has_none(glideslope, run_dir: Path, tmp_path, monkeypatch) -> None:
    def fires_on_digits(run) -> tuple:
        return (finding("GRD001", "error"),) if run.name == "digits" else ()

    monkeypatch.setattr(type(MILD), "detect", lambda self, run: fires_on_digits(run))
    write_run(tmp_path / "base", {"loss": [2.0, 1.0]})
    assert glideslope("check", run_dir, "--baseline", "base", "--new-only").code == 1
    assert glideslope("check", "base", "--baseline", run_dir, "--new-only").code == 0
    assert "gone, found in" in glideslope("check", "base", "--baseline", run_dir).out


# report


def test_report_goes_into_the_run_and_is_replaced(glideslope, run_dir: Path) -> None:
    ended = glideslope("report", run_dir)
    assert (ended.code, ended.out) == (0, f"{run_dir / 'report.html'}\n")
    first = (run_dir / "report.html").read_text()
    assert first.lstrip().startswith("<!doctype html>")
    assert glideslope("report", run_dir).code == 0


def test_report_exits_0_whatever_it_found_and_check_writes_the_same(glideslope, run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "glideslope.toml").write_text('fail-on = "warning"')
    assert glideslope("report", run_dir, "-o", "a.html").code == 0
    assert glideslope("check", run_dir, "--report", "b.html").code == 1
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()


def test_report_leaves_what_glideslope_did_not_write(glideslope, run_dir: Path) -> None:
    other = run_dir / "report.html"
    other.write_text("<html>precious</html>")
    ended = glideslope("report", run_dir)
    assert (ended.code, "was not written by glideslope" in ended.complaint) == (2, True)
    assert other.read_text() == "<html>precious</html>"
    assert glideslope("report", run_dir, "--force").code == 0
    assert "precious" not in other.read_text()


def test_report_of_several_runs_goes_on_after_one_that_cannot_be_read(glideslope, run_dir: Path) -> None:
    ended = glideslope("report", "gone", run_dir)
    assert (ended.code, ended.complaint.split(":")[0]) == (2, "gone does not exist")
    assert (run_dir / "report.html").is_file()


def test_a_static_report_lies_beside_the_other(glideslope, run_dir: Path, tmp_path: Path) -> None:
    ended = glideslope("report", run_dir, "--static")
    assert (ended.code, ended.out) == (0, f"{run_dir / 'report-static.html'}\n")
    key = (run_dir / "report-static.html").read_text()
    assert "<script" not in key
    assert glideslope("report", run_dir, "--static", "--all-charts", "-o", "all.html").code == 0
    assert "<script" not in (tmp_path / "all.html").read_text()
    assert "Not here: " in key
    assert "Not here: " not in (tmp_path / "all.html").read_text()
    assert not (run_dir / "report.html").exists()


def test_static_reports_of_several_runs_have_a_static_comparison(glideslope, run_dir: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", {"loss": [2.0, 1.0]})
    ended = glideslope("report", run_dir, other, "--static")
    pages = [run_dir / "report-static.html", other / "report-static.html", tmp_path / "comparison-static.html"]
    assert (ended.code, ended.out) == (0, "".join(f"{page}\n" for page in pages))
    page = pages[2].read_text()
    assert "<script" not in page
    assert 'href="digits/report-static.html"' in page
    assert glideslope("report", run_dir, other, "--static", "-o", "x.html").out == "x.html\n"


def test_report_of_several_runs_compares_them_and_links_their_reports(glideslope, run_dir: Path, tmp_path) -> None:
    other = write_run(tmp_path / "other", {"loss": [2.0, 1.0]})
    ended = glideslope("report", run_dir, other)
    pages = [run_dir / "report.html", other / "report.html", tmp_path / "comparison.html"]
    assert (ended.code, ended.out) == (0, "".join(f"{page}\n" for page in pages))
    page = pages[2].read_text()
    assert "No difference: it is the same run twice." in page
    assert 'href="digits/report.html"' in page


def test_the_output_of_several_runs_is_their_comparison_alone(glideslope, run_dir: Path, tmp_path) -> None:
    other = write_run(tmp_path / "other", {"loss": [2.0, 1.0]})
    ended = glideslope("report", run_dir, other, "-o", "new/x.html")
    assert (ended.code, ended.out) == (0, "new/x.html\n")
    assert not (run_dir / "report.html").exists()
    (tmp_path / "new" / "x.html").write_text("precious")
    assert "was not written by glideslope" in glideslope("report", run_dir, other, "-o", "new/x.html").complaint
    assert glideslope("report", run_dir, other, "-o", "new/x.html", "--force").code == 0


def test_one_run_that_can_be_read_is_no_comparison(glideslope, run_dir: Path) -> None:
    ended = glideslope("report", "gone", run_dir, "-o", "x.html")
    assert ended.code == 2
    assert ended.err.splitlines()[1] == "glideslope: of one run alone there is no comparison."


def test_report_against_a_baseline(glideslope, run_dir: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "base", {"loss": [2.0, 1.0]})
    assert glideslope("report", run_dir, "--baseline", "base").code == 0
    assert "Against the baseline" in (run_dir / "report.html").read_text()
    assert glideslope("check", run_dir, "--baseline", "base", "--report", "b.html").code == 0
    assert (tmp_path / "b.html").read_text() == (run_dir / "report.html").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        {"end": "failed", "exception": "ValueError: first batch"},
        {"steps": {"loss": [float("nan")] * 3, "grad_norm": float("nan")}, "end": None},
        {"steps": {"loss": [1.0]}},
        {
            "steps": {"loss": [1.0, 2.0]},
            "manifest": {"model": "<script>alert(1)</script>", "tensors": [{"name": "</script>"}]},
        },
    ],
    ids=["no step", "NaN everywhere", "one step", "hostile"],
)
def test_odd_runs_get_a_report(glideslope, tmp_path: Path, arguments: dict[str, Any]) -> None:
    write_run(tmp_path / "<b>odd", **arguments)
    ended = glideslope("report", "<b>odd", "-o", "x.html")
    assert (ended.code, ended.err) == (0, "")
    page = (tmp_path / "x.html").read_text()
    assert "<b>odd" not in page
    assert "<script>alert" not in page


# export


def test_export_writes_into_the_run_and_says_what(glideslope, run_dir: Path) -> None:
    ended = glideslope("export", run_dir)
    assert (ended.code, ended.err) == (0, "")
    tables = ("steps", "layers", "modules", "histograms", "metrics", "events", "columns")
    assert ended.out.splitlines() == [str(run_dir / "export" / f"{name}.csv") for name in tables] + [
        str(run_dir / "export" / "run.json")
    ]
    again = glideslope("export", run_dir)
    assert again.code == 2
    assert "and 7 more exist: name another directory with -o, or use --force" in again.complaint
    assert glideslope("export", run_dir, "--force").code == 0
    assert glideslope("check", run_dir).code == 0, "what was exported is no part of the recording"


def test_export_writes_elsewhere_and_charts(glideslope, run_dir: Path, tmp_path: Path) -> None:
    ended = glideslope("export", run_dir, "-o", "new/out", "--format", "parquet", "--charts")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "new/out/charts")
    assert (tmp_path / "new/out/steps.parquet").is_file()
    assert [path.name for path in (tmp_path / "new/out/charts").iterdir()] == ["loss.svg"]


# nightly


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run that is fine and one that breaks."""
    write_run(tmp_path / "root" / "fine", {"loss": [2.0, 1.0, 0.5] * 20})
    write_run(tmp_path / "root" / "torn" / "breaks", {"loss": [1.0, float("nan"), float("nan")] * 20})
    return tmp_path / "root"


def test_nightly_in_processes_of_its_own(root: Path, tmp_path: Path) -> None:
    """A process that starts others, as it is used; the rest is tested without them."""
    (tmp_path / "glideslope.toml").write_text('select = ["NUM001", "RUN001"]\n')
    command = ("nightly", root, "-o", "site", "--jobs", "2")
    ended = process(*command, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "site/index.html",
        "2 runs: 1 failed, 0 not judged, 1 passed; 2 judged anew, 0 unchanged",
    ]
    assert (tmp_path / "site" / "runs" / "torn" / "breaks" / "report.html").is_file()
    again = process(*command, "--fail-on", "error", cwd=tmp_path)
    assert again.returncode == 1
    assert "0 judged anew, 2 unchanged" in again.stdout


def test_nightly_exits_by_findings_only_if_asked_to(glideslope, root: Path, monkeypatch) -> None:
    monkeypatch.setattr("analyzer.nightly.site.in_processes", in_this_process)
    assert glideslope("nightly", root, "-o", "site").code == 0
    assert glideslope("nightly", root, "-o", "site", "--fail-on", "error").code == 0
    assert glideslope("nightly", root, "-o", "site", "--fail-on", "warning").code == 1
    (root / "fine" / "run-a00.json").write_text("{")
    broken = glideslope("nightly", root, "-o", "site")
    assert (broken.code, "run-a00.json is truncated or not JSON" in broken.out) == (0, True)
    assert glideslope("nightly", root, "-o", "site", "--fail-on", "error").code == 2


def in_this_process(tasks, settings, jobs):
    """In place of the pool, with the rules of these tests."""
    from analyzer.config import choose
    from analyzer.nightly.work import report_run

    for task in tasks:
        yield task, report_run(task, choose(analyzer.detectors.DETECTORS, settings))


# Bad usage


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "digits", "--select", "GRX"], 'no rule has the code "GRX" (did you mean "GRD'),
        (["check", "digits", "--fail-on", "fatal"], "--fail-on should be one of error, warning, note"),
        (["check", "digits", "--format", "jsn"], 'there is no format "jsn" (did you mean "json"?)'),
        (["check", "digits", "digits", "--report", "x.html"], "--report writes the report of one run"),
        (["check", "digits", "--config", "gone.toml"], "gone.toml cannot be read"),
        (["check", "gone"], "gone does not exist"),
        (["check", "empty"], "empty is empty"),
        (["check", "."], ". is not a run itself: did you mean digits?"),
        (["check", "digits", "--new-only"], "--new-only compares with a run: name it with --baseline."),
        (["check", "digits", "--baseline", "gone"], "gone does not exist"),
        (["report", "digits", "digits", "--baseline", "digits"], "--baseline is for one run"),
        (["report", "digits", "--all-charts"], "--all-charts is for --static"),
        (["report", "gone"], "gone does not exist"),
        (["report", "memory://x/y"], "memory://x/y holds no run"),
        (["export", "gone"], "gone does not exist"),
        (["export", "digits", "--format", "cvs"], 'there is no format "cvs" (did you mean "csv"?)'),
        (["export", "digits", "-o", "digits/run-a00.json"], "run-a00.json cannot be made (File exists)"),
        (["export", "digits", "-o", "digits/steps"], "digits/steps is where the recorder's shards lie"),
        (["info", "gone"], "gone does not exist"),
        (["nightly", "gone", "-o", "site"], "gone does not exist: give the directory that holds the runs"),
        (["nightly", "empty", "-o", "site"], "empty holds no run"),
        (["nightly", "digits/run-a00.json", "-o", "site"], "is a file: give the directory"),
        (["nightly", "digits", "-o", "site", "--fail-on", "fatal"], "--fail-on should be one of"),
        (["nightly", "digits", "-o", "digits/run-a00.json"], "digits/run-a00.json cannot be written"),
        (["info", "digits", "--format", "jsn"], 'there is no format "jsn" (did you mean "json"?)'),
        (["rule", "GRD01"], 'there is no rule "GRD01" (GRD has GRD001); `glideslope rule` lists them'),
        (["rule", "LOS999"], 'there is no rule "LOS999" (LOS has LOS001)'),
        (["rule", "LOX"], 'there is no rule "LOX" (did you mean "LOS"?)'),
        (["rule", "documentd"], 'there is no rule "documentd" (did you mean "documented-fault"?)'),
        (["rule", "zzz"], 'there is no rule "zzz"; `glideslope rule` lists them.'),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(glideslope, run_dir: Path, tmp_path: Path, arguments, words) -> None:
    (tmp_path / "empty").mkdir()
    ended = glideslope(*arguments)
    assert ended.code == 2
    assert words in ended.complaint


@pytest.mark.parametrize(
    "arguments", [["chek"], ["check"], ["check", "x", "--bogus"], ["rule", "A", "B"], ["nightly"], []]
)
def test_usage_errors_exit_2_and_show_the_usage(glideslope, arguments: list[str]) -> None:
    ended = glideslope(*arguments)
    assert ended.code == 2
    assert "Usage: glideslope" in ended.err + ended.out
    assert "Traceback" not in ended.err


def test_help_lists_what_there_is(glideslope) -> None:
    ended = glideslope("-h")
    commands = ended.out.partition("Commands:")[2].split("\n")
    names = [line.split()[0] for line in commands if line.strip()]
    assert names == ["check", "report", "nightly", "rule", "info", "export", "demo"]
    assert ended.code == 0


def test_version(glideslope) -> None:
    ended = glideslope("--version")
    assert (ended.code, ended.out) == (0, f"glideslope {__version__}\n")


# rule, info


def test_rule_lists_and_explains(glideslope) -> None:
    assert glideslope("rule").out.splitlines()[3].startswith("DOC001  warning  documented-fault")
    assert "What it does" in glideslope("rule", "DOC001").out
    assert glideslope("rule", "documented-fault").out == glideslope("rule", "doc001").out


def test_info(glideslope, run_dir: Path) -> None:
    ended = glideslope("info", run_dir)
    assert ended.code == 0
    assert "  2 recorded, steps 0 to 1" in ended.out
    assert json.loads(glideslope("info", run_dir, "--format", "json").out)["steps"]["count"] == 2


# The process as a whole


def process(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "analyzer", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | options.pop("env", {})
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


def test_a_reader_that_goes_away_is_no_error(run_dir: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "analyzer", "info", str(run_dir)]
    with os.fdopen(writing, "wb") as stdout:
        done = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_has_no_unicode(tmp_path: Path) -> None:
    run = write_run(tmp_path / "ärger", {"loss": [1.0]})
    done = process("info", run, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].endswith("?rger")


def test_a_defect_is_told_as_such_and_is_not_mistaken_for_findings(run_dir: Path) -> None:
    code = (
        "import analyzer.info, sys\n"
        "analyzer.info.describe = lambda run: 1 / 0\n"
        "from analyzer.cli import main\n"
        "main(['info', sys.argv[1]])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, str(run_dir)], capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "ZeroDivisionError" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("glideslope: this is a defect of glideslope")


def test_the_analyzer_starts_quickly_and_light() -> None:
    code = "import analyzer, sys; print(sorted(m for m in ('torch', 'polars', 'altair', 'typer') if m in sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n"
