"""The report without script: pictures for charts, strict in what it allows, small enough to mail."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from support.markup import Element, parse
from support.pages import HOSTILE, bare_run, finding, full_run, hostile_finding, hostile_run, judged, nan_run

from analyzer.charts import CHARTS
from analyzer.engine import TOOL
from analyzer.files import GENERATOR
from analyzer.findings import ChartRef
from analyzer.outputs.html import render_report, render_static_report
from analyzer.page.still import KEY_CHARTS, LIMIT

SYMPTOM = finding("LOS001", name="stalled-loss", severity="warning", chart=ChartRef("steps", "loss", (), 2.0))
CAUSE = finding(explains=(SYMPTOM,))
LEFT_OUT = "The picture is left out, so that this page fits a mail."


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return full_run(tmp_path_factory.mktemp("static"))


@pytest.fixture(scope="module")
def page(run):
    return render_static_report(run, judged(run, CAUSE), tool=TOOL)


@pytest.fixture(scope="module")
def tree(page):
    return parse(page)


def titles(tree: Element) -> list[str]:
    return [(figure.all("h4") or figure.all("h3"))[0].text for figure in tree.all("figure")]


def pictures(tree: Element) -> list[Element]:
    return [svg for part in tree.all("div", class_="still") for svg in part.all("svg")]


def test_there_is_no_script_and_the_policy_forbids_one(page, tree):
    policy = [m.attributes["content"] for m in tree.all("meta") if "http-equiv" in m.attributes]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert not tree.all("script")
    assert not [e for e in tree.walk() if any(name.startswith("on") or name == "src" for name in e.attributes)]
    assert not re.search(r"url\((?!#chart-)|@import|javascript:", page)
    assert GENERATOR in page[:4096]


def test_every_chart_of_the_page_is_a_picture_that_is_described(tree):
    drawn = pictures(tree)
    assert len(drawn) == len(tree.all("figure")) > 6
    assert not tree.all("div", class_="slot")
    for svg in drawn:
        assert (svg.attributes["role"], len(svg.attributes["aria-label"]) > 30) == ("img", True)
        assert svg.all("path")


def test_the_words_are_those_of_the_report(run, tree):
    full = parse(render_report(run, judged(run, CAUSE), tool=TOOL))
    for section in ("audits", "rules", "configuration"):
        assert tree.one("section", id=section).text == full.one("section", id=section).text
    assert tree.one("p", class_="verdict").text == full.one("p", class_="verdict").text
    assert set(titles(tree)) < set(titles(full))


def test_a_mail_has_the_charts_that_matter_most_and_names_the_others(tree):
    section = tree.one("section", id="instruments")
    assert [figure.one("h4").text for figure in section.all("figure")] == [
        "Loss (CrossEntropyLoss)",
        "accuracy (train, valid)",
        "Step size: alpha",
        "Gradient norm",
        "Learning rate",
    ]
    intro = section.all("p", class_="intro")[0].text
    left_out = [chart.title for chart in CHARTS if chart.name not in KEY_CHARTS]
    assert len(left_out) > 5
    assert all(title in intro for title in left_out)
    assert not tree.all("details", class_="tensors")


def test_the_important_charts_exist():
    assert set(KEY_CHARTS) <= {chart.name for chart in CHARTS}


def test_all_charts_are_there_when_asked_for(run):
    every = parse(render_static_report(run, judged(run, CAUSE), tool=TOOL, all_charts=True))
    full = parse(render_report(run, judged(run, CAUSE), tool=TOOL))
    assert titles(every) == titles(full)
    assert len(pictures(every)) == len(every.all("figure")) > 15
    assert "fits a mail" not in every.text


def test_it_fits_a_mail_and_says_which_pictures_did_not(run):
    many = [finding(f"AAA{i:03}", chart=ChartRef("layers", "grad_norm")) for i in range(8)]
    page = render_static_report(run, judged(run, *many), tool=TOOL)
    assert 0.9 * LIMIT < len(page.encode()) <= LIMIT
    tree = parse(page)
    shown = [bool(figure.all("svg", role="img")) for figure in tree.one("section", id="findings").all("figure")]
    assert shown.count(True) > 3
    assert all(before >= after for before, after in pairwise(shown)), "the first findings keep theirs"
    rest = [figure for figure in tree.all("figure") if not figure.all("svg", role="img")]
    assert len(rest) > 3
    for figure in rest:
        assert LEFT_OUT in figure.one("p", class_="fallback").text
        assert len(figure.one("p", class_="fallback").text) > len(LEFT_OUT) + 30, "the description stands in its place"


@pytest.mark.parametrize(("all_charts", "charts"), [(False, 0), (True, 1)])
def test_symptoms_have_their_chart_where_there_is_room(run, all_charts: bool, charts: int):
    tree = parse(render_static_report(run, judged(run, CAUSE), tool=TOOL, all_charts=all_charts))
    article = tree.one("article", id="STP001")
    assert len(article.one("details", id="LOS001").all("svg", role="img")) == charts
    assert len(article.all("svg", role="img")) == 1 + charts


def test_a_long_run_fits_a_mail_too(tmp_path):
    run = full_run(tmp_path, 20_000, [f"layers.{i}.weight" for i in range(40)], every=16)
    assert len(render_static_report(run, judged(run, CAUSE), tool=TOOL).encode()) <= LIMIT


def test_ids_are_unique_and_every_internal_link_has_its_target(page, tree):
    ids = [element.attributes["id"] for element in tree.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [a.attributes["href"][1:] for a in tree.all("a")] + re.findall(r"url\(#([^)]+)\)", page)
    assert set(links) <= set(ids)


def test_hostile_names_are_text_everywhere(tmp_path):
    run = hostile_run(tmp_path)
    page = render_static_report(run, judged(run, hostile_finding()), tool=TOOL, all_charts=True)
    tree = parse(page)
    assert len(tree.all("h1")) == 1
    assert not tree.all("img") + tree.all("script")
    assert not [e for e in tree.walk() if any(name.startswith("on") for name in e.attributes)]
    assert HOSTILE[0] in tree.one("section", class_="card").text
    assert "could not be drawn" not in page
    assert page.encode("utf-8")


def test_a_name_like_the_mark_of_a_picture_is_only_a_name(run):
    mark = "<!--picture chart-1-->"
    page = render_static_report(run, judged(run, finding(message=mark)), tool=TOOL)
    assert parse(page).one("p", class_="message").text == mark


def test_runs_of_nan_and_of_next_to_nothing_have_their_page(tmp_path):
    run = nan_run(tmp_path)
    page = render_static_report(run, judged(run, finding(chart=ChartRef("steps", "loss", (), 1.0))), tool=TOOL)
    assert not re.search(r'(?:d|x|y|transform)="[^"]*(?:NaN|Infinity)', page)
    bare = parse(render_static_report(bare_run(tmp_path), judged(run), tool=TOOL))
    assert titles(bare) == ["Loss"]
    assert len(bare.all("div", class_="absent")) > 3


def test_the_same_run_gives_the_same_page(run, page):
    render_static_report(run, judged(run, SYMPTOM), tool=TOOL)
    assert render_static_report(run, judged(run, CAUSE), tool=TOOL) == page
