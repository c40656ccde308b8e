"""Nights in a row: what changed is judged anew, what is broken is told, and nobody's files are lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest
from support.markup import Element, parse
from support.runs import write_run
from support.synthetic import falling, flat

import analyzer
from analyzer.config import Rules, Settings, choose
from analyzer.detectors import DETECTORS
from analyzer.errors import GlideslopeError
from analyzer.files import GENERATOR
from analyzer.findings import Severity
from analyzer.nightly import work
from analyzer.nightly.lock import locked
from analyzer.nightly.site import Night, exit_verdict, make_site, told
from analyzer.nightly.summary import Entry, Summary, read_summary
from analyzer.nightly.work import Task

SCHEMA = json.loads((Path(analyzer.__file__).parent / "summary.schema.json").read_text())
PAGE = f'<html>{GENERATOR} 0"></html>'


@dataclass
class Nights:
    """A root and its site. `judged` are the runs that the last night judged anew."""

    root: Path
    site: Path
    settings: Settings
    judged: list[str]

    def pass_one(self, **changes) -> Summary:
        self.judged.clear()
        night = Night(self.root, self.site, replace(self.settings, **changes), 1)
        return make_site(night, lambda text: None, self._here)

    def _here(self, tasks: Iterable[Task], settings: Settings, jobs: int) -> Iterator[tuple[Task, Entry]]:
        rules: Rules = choose(DETECTORS, settings)
        for task in tasks:
            self.judged.append(task.name)
            yield task, work.report_run(task, rules)

    def index(self) -> Element:
        return parse((self.site / "index.html").read_text())


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    """Three runs, judged by the rules on the end and on the run's losses only; reports are a stub."""
    monkeypatch.setattr(work, "render_report", lambda run, result, tool: PAGE)
    nights = Nights(tmp_path / "root", tmp_path / "site", Settings(select=("RUN001", "NUM001", "LOS002")), [])
    record(nights.root / "a")
    record(nights.root / "group" / "b", broken=True)
    record(nights.root / "c")
    return nights


def record(path: Path, *, broken: bool = False, end: str | None = "completed", **manifest) -> None:
    losses = [*falling(60), *([float("nan")] * 40)] if broken else falling(100)
    shutil.rmtree(path, ignore_errors=True)
    columns = {"loss": losses, "grad_norm": [1.0 if value == value else value for value in losses]}
    write_run(path, columns, end=end, manifest=manifest)


def entry(summary: Summary, run: str) -> Entry:
    return next(entry for entry in summary.runs if entry.run == run)


def test_the_first_night_reports_everything(nights: Nights) -> None:
    summary = nights.pass_one()
    assert [(e.run, e.verdict, e.steps) for e in summary.runs] == [
        ("a", "pass", 100),
        ("c", "pass", 100),
        ("group/b", "fail", 100),
    ]
    assert summary.reported == 3
    assert entry(summary, "group/b").report == "runs/group/b/report.html"
    assert (nights.site / "runs/group/b/report.html").read_text() == PAGE
    assert {e.new for e in summary.runs} == {None}, "there is no night before to compare with"
    rows = nights.index().one("tbody").all("tr")
    assert [row.one("th").attributes["data-sort"] for row in rows] == ["group/b", "a", "c"]
    assert all("new run" in row.text for row in rows)


def test_the_second_night_skips_what_did_not_change(nights: Nights) -> None:
    first = nights.pass_one()
    second = nights.pass_one()
    assert (nights.judged, second.reported) == ([], 0)
    assert second.runs == first.runs
    record(nights.root / "c", broken=True)
    (nights.root / "a" / "notes.txt").write_text("mine")
    third = nights.pass_one()
    assert nights.judged == ["c"]
    assert [mark.code for mark in entry(third, "c").new or ()] == [m.code for m in entry(third, "c").findings]
    row = next(row for row in nights.index().all("tr") if row.all("th")[0].text == "c")
    assert "new NUM001" in row.one("td", class_="change").text


def test_what_is_gone_is_told_too(nights: Nights) -> None:
    nights.pass_one()
    record(nights.root / "group" / "b")
    summary = nights.pass_one()
    assert [mark.code for mark in entry(summary, "group/b").gone or ()] == ["NUM001"]
    assert "gone NUM001" in nights.index().one("span", class_="minus").text


def test_a_lost_report_another_program_or_configuration_is_reason_enough(nights: Nights, monkeypatch) -> None:
    nights.pass_one()
    (nights.site / "runs" / "a" / "report.html").unlink()
    nights.pass_one()
    assert nights.judged == ["a"]
    nights.pass_one(fail_on="note")
    assert len(nights.judged) == 3
    monkeypatch.setattr("analyzer.nightly.site.TOOL", "glideslope 99")
    nights.pass_one(fail_on="note")
    assert len(nights.judged) == 3


def test_a_run_that_goes_on_is_said_to_and_is_judged_every_night(nights: Nights) -> None:
    record(nights.root / "going", end=None, started=datetime.now(UTC).isoformat(), host="elsewhere")
    summary = nights.pass_one()
    assert (entry(summary, "going").running, entry(summary, "going").status) == (True, "unfinished")
    assert "Still being written" in nights.index().text
    nights.pass_one()
    assert nights.judged == ["going"]
    record(nights.root / "going", end=None, host="elsewhere")
    summary = nights.pass_one()
    assert (entry(summary, "going").running, entry(summary, "going").verdict) == (False, "pass")
    nights.pass_one()
    assert nights.judged == [], "a run that was killed stays as it is"


def test_broken_runs_keep_nobody_waiting_and_are_tried_again(nights: Nights, monkeypatch) -> None:
    (nights.root / "torn").mkdir()
    (nights.root / "torn" / "run-a00.json").write_text('{"format":')
    fine = work.render_report

    def fails_on_c(run, result, tool):
        if run.name == "c":
            raise ZeroDivisionError("division by zero")
        return fine(run, result, tool)

    monkeypatch.setattr(work, "render_report", fails_on_c)
    summary = nights.pass_one()
    assert len(summary.runs) == 4
    torn, c = entry(summary, "torn"), entry(summary, "c")
    assert (torn.verdict, torn.status, torn.report) == ("not-judged", "unreadable", None)
    assert "truncated" in torn.problem
    assert (c.verdict, c.report) == ("pass", None)
    assert "ZeroDivisionError: division by zero" in c.problem
    words = told(summary, nights.site)
    assert "4 runs: 1 failed, 1 not judged, 2 passed; 4 judged anew, 0 unchanged" in words
    assert words.count("\n") == 4
    assert "truncated" in nights.index().text
    monkeypatch.setattr(work, "render_report", fine)
    record(nights.root / "torn")
    summary = nights.pass_one()
    assert sorted(nights.judged) == ["c", "torn"]
    assert not any(e.problem for e in summary.runs)


def test_nothing_of_the_users_is_removed_or_overwritten(nights: Nights) -> None:
    nights.pass_one()
    mine = nights.site / "runs" / "a" / "notes.txt"
    mine.write_text("mine")
    other = nights.site / "runs" / "new" / "report.html"
    other.parent.mkdir()
    other.write_text("<html>precious</html>")
    record(nights.root / "new")
    shutil.rmtree(nights.root / "c")
    summary = nights.pass_one()
    assert other.read_text() == "<html>precious</html>"
    assert "was not written by glideslope" in entry(summary, "new").problem
    assert mine.read_text() == "mine"
    assert (nights.site / "runs" / "c" / "report.html").exists()
    assert summary.lost == ("c",)
    assert "No longer there: c." in nights.index().text
    assert {e.run for e in summary.runs} == {"a", "group/b", "new"}
    assert nights.pass_one().lost == ()


@pytest.mark.parametrize("name", ["index.html", "summary.json"])
@pytest.mark.parametrize("content", ["precious", '{"runs": []}', "[]"])
def test_a_site_that_is_somebody_elses_is_left_alone(nights: Nights, name: str, content: str) -> None:
    nights.site.mkdir()
    (nights.site / name).write_text(content)
    with pytest.raises(GlideslopeError, match="another directory"):
        nights.pass_one()
    assert (nights.site / name).read_text() == content
    assert not (nights.site / "runs").exists()


def test_a_root_without_runs_leaves_the_site_as_it_is(nights: Nights) -> None:
    """A mount that is missing looks like that."""
    nights.pass_one()
    before = (nights.site / "summary.json").read_text()
    shutil.rmtree(nights.root)
    with pytest.raises(GlideslopeError, match="root does not exist: give the directory"):
        nights.pass_one()
    nights.root.mkdir()
    with pytest.raises(GlideslopeError, match="root holds no run"):
        nights.pass_one()
    assert (nights.site / "summary.json").read_text() == before


def test_two_nightlies_at_once_do_not_meet(nights: Nights) -> None:
    with locked(nights.site), pytest.raises(GlideslopeError, match=rf"another nightly \(process {os.getpid()} on "):
        nights.pass_one()
    assert nights.judged == []
    assert nights.pass_one().reported == 3


def test_a_night_that_is_cut_short_is_not_lost(nights: Nights, monkeypatch) -> None:
    fine = work.render_report

    def interrupted(run, result, tool):
        if run.name == "b":
            raise KeyboardInterrupt
        return fine(run, result, tool)

    monkeypatch.setattr(work, "render_report", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nights.pass_one()
    assert [row.one("th").text for row in nights.index().one("tbody").all("tr")] == ["a", "c"]
    assert "It was cut short: 1 run still to be judged." in nights.index().text
    monkeypatch.setattr(work, "render_report", fine)
    nights.pass_one()
    assert nights.judged == ["group/b"]


def test_a_root_that_is_a_run_has_one_row(nights: Nights) -> None:
    nights.root = nights.root / "a"
    summary = nights.pass_one()
    assert [e.report for e in summary.runs] == ["runs/a/report.html"]


def test_the_summary_is_valid_and_comes_back_as_it_was(nights: Nights) -> None:
    (nights.root / "torn").mkdir()
    (nights.root / "torn" / "run-a00.json").write_text("{")
    summary = nights.pass_one()
    document = json.loads((nights.site / "summary.json").read_text())
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    validator.validate(document)
    assert document.keys() == SCHEMA["properties"].keys()
    assert document["runs"][0].keys() == SCHEMA["$defs"]["run"]["properties"].keys()
    assert document["totals"] == {"runs": 4, "fail": 1, "not-judged": 1, "pass": 2, "running": 0, "broken": 1}
    read = read_summary(nights.site)
    assert read is not None
    assert read.runs == summary.runs


def test_an_entry_that_was_tampered_with_counts_as_never_seen(nights: Nights) -> None:
    nights.pass_one()
    path = nights.site / "summary.json"
    document = json.loads(path.read_text())
    document["runs"][0] = {"run": "a", "findings": 3}
    path.write_text(json.dumps(document))
    nights.pass_one()
    assert nights.judged == ["a"]


@pytest.mark.parametrize(("fail_on", "verdict"), [("error", "fail"), ("warning", "fail")])
def test_the_verdict_of_a_night_is_that_of_all_its_runs(nights: Nights, fail_on: Severity, verdict: str) -> None:
    assert exit_verdict(nights.pass_one(fail_on=fail_on)) == verdict


def test_names_of_all_kinds_lead_to_their_reports(nights: Nights) -> None:
    for name in ("a b#c?d%e", "<b>&'\"", "ü/\N{SNOWMAN}"):
        record(nights.root / name)
    odd = nights.root / os.fsdecode(b"\xff\xfe")
    (nights.root / "a").rename(odd)
    summary = nights.pass_one()
    assert odd.name in {e.run for e in summary.runs}
    for link in nights.index().one("tbody").all("a"):
        href = link.attributes["href"].partition("#")[0]
        assert (nights.site / unquote(href, errors="surrogateescape")).is_file()


def test_losses_that_are_flat_or_absent_have_a_row_too(nights: Nights) -> None:
    write_run(nights.root / "flat", {"loss": flat(30)})
    write_run(nights.root / "nothing")
    summary = nights.pass_one()
    assert entry(summary, "flat").loss == pytest.approx(2.302585)
    assert (entry(summary, "nothing").loss, entry(summary, "nothing").sparkline) == (None, None)
