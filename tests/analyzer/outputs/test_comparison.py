"""The page on several runs: what it says first, its tables, and that any run, however odd, gets a row."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from support.markup import Element, parse
from support.pages import bare_run, finding, full_run, hostile_finding, hostile_run, judged, nan_run, one_step_run
from support.runs import write_run

from analyzer.baseline import against
from analyzer.engine import TOOL
from analyzer.files import GENERATOR
from analyzer.findings import DetectorState
from analyzer.outputs.comparison import render_comparison, render_static_comparison
from analyzer.outputs.html import render_report, render_static_report
from analyzer.page.still import LIMIT
from analyzer.run import open_run


def page(pairs, hrefs=()) -> str:
    return render_comparison([run for run, _ in pairs], [result for _, result in pairs], tool=TOOL, hrefs=hrefs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("comparison")


@pytest.fixture(scope="module")
def pair(folder):
    healthy = full_run(folder, name="healthy")
    slower = full_run(folder, name="slower", loss=[2.3 - 0.001 * s + 0.01 * (s % 3) for s in range(200)])
    return [(healthy, judged(healthy)), (slower, judged(slower, finding()))]


@pytest.fixture(scope="module")
def tree(pair) -> Element:
    return parse(page(pair, hrefs=["healthy/report.html", None]))


def cells(table: Element) -> list[list[str]]:
    return [[cell.text for cell in row.all("th") + row.all("td")] for row in table.one("tbody").all("tr")]


def test_it_says_first_what_differs_and_where_it_shows(tree):
    lines = [item.text for item in tree.one("ul", class_="statements").all("li")]
    assert lines[0] == "They were set up alike, as far as it was recorded."
    assert lines[1].startswith("Loss separates the runs first, in steps ")
    assert tree.one("h1").text == "healthy and slower"


def test_every_run_has_a_row_with_its_verdict_and_a_link_to_its_report(tree):
    rows = cells(tree.one("table", class_="runs"))
    assert [row[:2] for row in rows] == [
        ["healthy", "Pass 1 rule judged this run, and none fired."],
        ["slower", "Fail Learning rate too large, steps 5 to 24"],
    ]
    links = [link.attributes["href"] for link in tree.one("table", class_="runs").all("a")]
    assert links == ["healthy/report.html"]


def test_curves_lie_over_one_another_with_the_step_where_they_part(tree):
    titles = [figure.one("h3").text for figure in tree.one("section", id="curves").all("figure")]
    assert titles[:2] == ["Learning rate", "Loss"]
    assert {"Gradient norm", "Update ratio", "Alpha", "Valid accuracy"} <= set(titles)
    loss = next(f for f in tree.all("figure") if f.all("h3") and f.one("h3").text == "Loss")
    keys = [item.text for item in loss.one("ul", class_="keys").all("li")]
    assert keys[:2] == ["healthy", "slower"]
    assert keys[2].startswith("they part, in steps")
    spec = json.loads(loss.one("script").text)
    assert {"steps", "values"} <= {item["name"] for item in spec["params"]}


def test_alpha_is_side_by_side_on_the_same_axes(tree):
    figures = tree.one("section", id="alpha").all("figure")
    assert [figure.one("h3").text for figure in figures] == ["healthy", "slower"]
    specs = [json.loads(figure.one("script").text) for figure in figures]
    tops = {
        str(layer["encoding"]["y"]["scale"]) for spec in specs for layer in spec["layer"] if "y" in layer["encoding"]
    }
    assert len(tops) == 1


def static(pairs, **options) -> Element:
    runs, results = zip(*pairs, strict=True)
    return parse(render_static_comparison(runs, results, tool=TOOL, **options))


def test_a_comparison_without_script_says_the_same_and_has_pictures(pair, tree):
    page = static(pair, hrefs=["healthy/report.html", None], all_charts=True)
    for section in ("runs", "settings", "partings", "rules"):
        assert page.one("section", id=section).text == tree.one("section", id=section).text
    titles = [[figure.one("h3").text for figure in each.all("figure")] for each in (page, tree)]
    assert titles[0] == titles[1]
    assert all(figure.all("svg", role="img") for figure in page.all("figure"))
    assert len(titles[0]) > 6
    assert not page.all("script") + page.all("form") + page.all("div", class_="slot")
    (policy,) = [meta.attributes["content"] for meta in page.all("meta") if "http-equiv" in meta.attributes]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_a_static_comparison_of_many_runs_fits_a_mail(folder):
    runs = [full_run(folder, 400, name=f"mailed-{i}") for i in range(7)]
    page = render_static_comparison(runs, [judged(run) for run in runs], tool=TOOL)
    assert 0.8 * LIMIT < len(page.encode()) <= LIMIT
    shown = [bool(figure.all("svg", role="img")) for figure in parse(page).all("figure")]
    assert True in shown
    assert False in shown


def test_identical_runs_show_no_difference(pair):
    tree = parse(page([pair[0], pair[0]]))
    assert tree.one("ul", class_="statements").text == "No difference: it is the same run twice."
    assert "Nothing: as far as it was recorded, the runs were set up alike." in tree.one("section", id="settings").text
    assert "Nowhere: no instrument separates the runs." in tree.one("section", id="partings").text
    assert not tree.all("table", class_="settings")
    assert not tree.all("table", class_="partings")


def test_ids_headings_and_links_are_in_order(tree):
    ids = [element.attributes["id"] for element in tree.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert {a.attributes["href"][1:] for a in tree.all("a") if a.attributes["href"].startswith("#")} <= set(ids)
    levels = [int(element.tag[1]) for element in tree.walk() if re.fullmatch("h[1-6]", element.tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert [len(tree.all(tag)) for tag in ("main", "nav", "footer", "h1")] == [1, 1, 1, 1]


def test_any_runs_can_be_compared(folder):
    odd = [nan_run(folder), one_step_run(folder), bare_run(folder), open_run(write_run(folder / "nothing"))]
    tree = parse(page([(run, judged(run)) for run in odd]))
    assert [row[0] for row in cells(tree.one("table", class_="runs"))] == ["nan-layers", "one-step", "bare", "nothing"]
    assert "could not be drawn" not in " ".join(item.text for item in tree.all("div", class_="absent"))


def test_hostile_names_stay_text(folder):
    run = hostile_run(folder)
    text = page([(run, judged(run, hostile_finding())), (run, judged(run))])
    tree = parse(text)
    assert "<img src=x" not in text
    assert not tree.all("img")
    assert GENERATOR in text[:4096]


def test_many_runs_fit(folder):
    runs = [full_run(folder, 40, name=f"many-{i}") for i in range(9)]
    text = page([(run, judged(run)) for run in runs])
    tree = parse(text)
    assert len(cells(tree.one("table", class_="runs"))) == 9
    assert "Curves are drawn of the 6 runs that did best; the tables have all 9." in tree.text
    assert len(text) < 1_600_000


# The report of a run against a baseline


@pytest.fixture(scope="module")
def against_baseline(pair):
    base, run = pair[0][0], pair[1][0]
    known = finding("GRD001", name="exploding-gradients", severity="note", tensors=("0.weight",), chart=None)
    gone = finding("ACT001", name="dead-units", chart=None)
    base_result = judged(base, known, gone)
    states = [DetectorState(code, code, "passed") for code in ("ACT001", "GRD001", "STP001")]
    return run, against(judged(run, finding(), known, states=states), base_result), (base, base_result)


def test_the_report_marks_findings_and_lays_the_runs_side_by_side(against_baseline):
    run, result, baseline = against_baseline
    tree = parse(render_report(run, result, tool=TOOL, baseline=baseline))
    assert [article.one("span", class_="change").text for article in tree.all("article")] == ["new", "known"]
    section = tree.one("section", id="baseline")
    assert "1 new, 1 known, 1 gone" in section.text
    assert "Dead units" in section.one("ul", class_="gone").text
    assert len(section.all("figure")) > 5
    assert [row[0] for row in cells(section.one("table", class_="runs"))] == ["slower", "healthy"]
    ids = [element.attributes["id"] for element in tree.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    levels = [int(element.tag[1]) for element in tree.walk() if re.fullmatch("h[1-6]", element.tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_static_report_says_it_in_words(against_baseline):
    run, result, baseline = against_baseline
    tree = parse(render_static_report(run, result, tool=TOOL, baseline=baseline))
    section = tree.one("section", id="baseline")
    assert "Dead units" in section.text
    assert not section.all("figure")
    assert not tree.all("script")


def test_the_static_report_with_all_charts_has_those_of_both_runs(against_baseline):
    run, result, baseline = against_baseline
    tree = parse(render_static_report(run, result, tool=TOOL, baseline=baseline, all_charts=True))
    figures = tree.one("section", id="baseline").all("figure")
    assert len(figures) > 5
    assert all(figure.all("svg", role="img") for figure in figures)


def test_without_a_baseline_nothing_speaks_of_one(pair):
    tree = parse(render_report(*pair[1], tool=TOOL))
    assert not tree.all("section", id="baseline")
    assert not tree.all("span", class_="change")
