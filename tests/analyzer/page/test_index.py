from __future__ import annotations

from urllib.parse import unquote

from support.markup import parse
from support.pages import bare_run, finding, full_run, hostile_finding, hostile_run, judged

from analyzer.engine import TOOL, unreadable
from analyzer.files import GENERATOR
from analyzer.findings import RunResult
from analyzer.page.index import IndexEntry, index_entry, render_index
from analyzer.page.verdict import verdict_of
from analyzer.templates import template_folder

SCRIPT = {" ".join((template_folder() / "index.js").read_text().split())}
"""Text of the only script that may stand in an index."""


def index(*entries):
    return render_index(entries, title="demo-runs", tool=TOOL)


def rows(page):
    return [[cell.text for cell in row.all("th") + row.all("td")] for row in parse(page).one("tbody").all("tr")]


def test_runs_that_need_attention_come_first_and_each_row_says_why(tmp_path):
    healthy, faulty, bare = full_run(tmp_path, name="healthy"), full_run(tmp_path, name="faulty"), bare_run(tmp_path)
    lost = unreadable("lost", "lost/run-a00.json is cut off: copy it again.")
    page = index(
        index_entry(healthy, judged(healthy), "healthy/report.html"),
        IndexEntry("lost", verdict_of(lost), "", "", 0, "Unreadable", None, None, problem=lost.problems[0]),
        index_entry(faulty, judged(faulty, finding()), "faulty/report.html"),
        index_entry(bare, RunResult(bare.path, bare.status, 3, "not-judged", (), ()), "bare/report.html"),
    )
    assert [row[:2] for row in rows(page)] == [
        ["faulty", "Fail"],
        ["bare", "Not judged"],
        ["lost", "Not judged"],
        ["healthy", "Pass"],
    ]
    assert rows(page)[0][2] == "Learning rate too large, steps 5 to 24 STP001 1 error"
    assert rows(page)[0][4] == "200 steps Completed"
    assert rows(page)[1][4] == "3 steps Unfinished"
    assert rows(page)[2][2] == "lost/run-a00.json is cut off: copy it again."
    assert [item.text for item in parse(page).one("ul", class_="counts").all("li")] == [
        "1 failed",
        "2 not judged",
        "1 passed",
    ]


def test_rows_link_to_the_report_and_to_its_first_finding(tmp_path):
    run = full_run(tmp_path)
    tree = parse(index(index_entry(run, judged(run, finding()), "full/report.html")))
    links = [link.attributes["href"] for link in tree.one("tbody").all("a")]
    assert links == ["full/report.html", "full/report.html#STP001"]


def test_the_index_has_curves_and_its_own_script_only_and_is_marked_as_ours(tmp_path):
    run = full_run(tmp_path)
    page = index(index_entry(run, judged(run), "full/report.html"))
    tree = parse(page)
    assert SCRIPT.issuperset(script.text for script in tree.all("script"))
    assert tree.one("tbody").one("svg", class_="sparkline").attributes["aria-label"].startswith("Loss from 2.3 to")
    assert GENERATOR in page[:4096]
    assert len(page) < 40_000


def test_hostile_names_and_paths_stay_text(tmp_path):
    run = hostile_run(tmp_path)
    tree = parse(index(index_entry(run, judged(run, hostile_finding()), f"javascript:{run.name}/report.html")))
    link = tree.one("tbody").all("a")[0]
    assert link.text == run.name
    assert ":" not in link.attributes["href"]
    assert unquote(link.attributes["href"]) == f"javascript:{run.name}/report.html"
    assert SCRIPT.issuperset(script.text for script in tree.all("script"))
    assert not tree.all("b", class_="")


def test_an_index_of_nothing_says_so():
    assert "No run was found." in parse(index()).text
