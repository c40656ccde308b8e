from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from support.markup import Element, parse
from support.pages import HOSTILE, bare_run, finding, full_run, hostile_finding, hostile_run, judged, nan_run
from support.runs import write_run

from analyzer.engine import TOOL
from analyzer.files import GENERATOR
from analyzer.findings import ChartRef, DetectorState, RunResult
from analyzer.outputs.html import render_report
from analyzer.run import open_run

SYMPTOM = finding("LOS001", name="stalled-loss", severity="warning", message="The loss stands at 2.3.", chart=None)
CAUSE = finding(explains=(SYMPTOM,))
NOTE = finding("GRD001", name="exploding-gradients", severity="note", chart=ChartRef("layers", "grad_norm"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return full_run(tmp_path_factory.mktemp("html"))


@pytest.fixture(scope="module")
def page(run):
    return render_report(run, judged(run, CAUSE, NOTE), tool=TOOL)


@pytest.fixture(scope="module")
def tree(page):
    return parse(page)


def rendered(run, *findings, **changes) -> Element:
    return parse(render_report(run, judged(run, *findings, **changes), tool=TOOL))


def specs(tree: Element) -> list[dict]:
    scripts = tree.all("script", type="application/json")
    return [json.loads(script.text) for script in scripts if script.attributes["id"] != "chart-config"]


def test_the_first_thing_said_is_the_verdict_with_the_most_probable_cause(tree):
    verdict = tree.one("p", class_="verdict").text
    assert verdict == "Fail Learning rate too large, steps 5 to 24 STP001"
    assert tree.one("title").text == "Fail: full"
    counts = [item.text for item in tree.one("ul", class_="counts").all("li")]
    assert counts == ["1 error", "0 warnings", "1 note", "1 rule passed", "1 not applicable"]


def test_findings_have_anchors_and_symptoms_are_folded_under_their_cause(tree):
    articles = tree.one("section", id="findings").all("article")
    assert [article.attributes["id"] for article in articles] == ["STP001", "GRD001"]
    symptom = articles[0].one("details", id="LOS001")
    assert "The loss stands at 2.3." in symptom.text
    assert "Explains 1 symptom" in articles[0].text


def test_a_finding_says_everything_that_it_knows(tree):
    text = tree.one("article", id="STP001").text
    for words in (
        "STP001",
        "error",
        CAUSE.message,
        "steps 5 to 24",
        "value 1.6, threshold 1",
        "90 % confident",
        "the loss rose sixfold",
        "the loss stayed finite",
        "the learning rate, 0.1, is too large",
        "divide it by 3",
    ):
        assert words in text


def test_the_same_rule_twice_has_two_anchors(run):
    tree = rendered(run, CAUSE, finding(first_step=50, last_step=60))
    assert [article.attributes["id"] for article in tree.all("article")] == ["STP001", "STP001-2"]


def test_ids_are_unique_and_every_internal_link_has_its_target(tree):
    ids = [element.attributes["id"] for element in tree.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [a.attributes["href"] for a in tree.all("a")] + [use.attributes["href"] for use in tree.all("use")]
    assert {link[1:] for link in links} <= set(ids)
    labelled = [e.attributes["aria-labelledby"] for e in tree.walk() if "aria-labelledby" in e.attributes]
    assert set(labelled) <= set(ids)


def test_the_page_has_landmarks_one_first_heading_and_no_gap_in_the_levels(tree):
    assert [len(tree.all(tag)) for tag in ("main", "nav", "footer", "h1")] == [1, 1, 1, 1]
    assert tree.one("html").attributes["lang"] == "en"
    assert tree.all("a")[0].attributes["href"] == "#findings"
    levels = [int(element.tag[1]) for element in tree.walk() if re.fullmatch("h[1-6]", element.tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_chart_has_a_heading_a_sentence_a_description_and_its_data(tree):
    figures = tree.all("figure")
    assert len(figures) > 15
    for figure in figures:
        assert (figure.all("h4") or figure.all("h3"))[0].text
        assert figure.one("p", class_="reading").text or figure.one("p", class_="fallback").text
        assert figure.one("script")
    assert all(spec["description"] for spec in specs(tree))


def test_key_numbers_stand_in_tables_with_headed_rows_and_columns(tree):
    tables = tree.all("table", class_="numbers")
    assert len(tables) >= 8
    for table in tables:
        width = len(table.one("thead").all("th")) + len(table.one("thead").all("td"))
        for row in table.one("tbody").all("tr"):
            assert len(row.all("th")) == 1
            assert len(row.all("td")) == width - 1


def test_the_page_is_marked_as_ours_and_forbids_every_request(page, tree):
    assert GENERATOR in page[:4096]
    assert tree.one("meta", name="generator").attributes["content"] == TOOL
    policy = [m.attributes["content"] for m in tree.all("meta") if "http-equiv" in m.attributes]
    assert policy == ["default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"]
    assert not [e for e in tree.walk() if "src" in e.attributes]
    assert all(link.attributes["href"].startswith("data:") for link in tree.all("link"))
    assert not re.search(r"url\(|@import", tree.one("style").text)


def test_the_javascript_is_there_once_and_keeps_its_names_to_itself(page):
    assert page.count("window.vegaEmbed=") == 1
    assert "<script>(()=>{" in page


def test_instruments_come_in_cockpits_order(tree):
    section = tree.one("section", id="instruments")
    panels = ["learning", "step-size", "gradients", "curvature", "hyperparameters", "data", "units", "performance"]
    assert [heading.attributes["id"] for heading in section.all("h3")] == panels
    links = section.one("ul", class_="panels").all("a")
    assert [link.attributes["href"] for link in links] == [f"#{panel}" for panel in panels]
    assert section.all("figure")[0].one("h4").text == "Loss (CrossEntropyLoss)"


def test_rules_are_listed_by_state_with_their_reasons(run):
    states = [
        DetectorState("AAA001", "one", "passed"),
        DetectorState("BBB001", "two", "not-applicable", "the run is too short"),
        DetectorState("CCC001", "three", "failed", "ValueError: odd"),
    ]
    tree = rendered(run, states=states)
    text = tree.one("section", id="rules").text
    assert "Passed 1 AAA001 One" in text
    assert "BBB001 Two the run is too short" in text
    assert "CCC001 Three ValueError: odd" in text
    assert "1 failed to judge" in tree.one("ul", class_="counts").text


def test_a_run_that_passed_and_one_that_was_not_judged_do_not_look_alike(run):
    passed = rendered(run)
    assert passed.one("p", class_="verdict").text == "Pass 1 rule judged this run, and none fired."
    result = RunResult(run.path, run.status, run.step_count, "not-judged", (), (), reason="no rule about it")
    unjudged = parse(render_report(run, result, tool=TOOL))
    assert unjudged.one("p", class_="verdict").text.startswith("Not judged No rule about it: this is not")
    assert "Nothing was judged" in unjudged.one("section", id="findings").text


def test_a_run_that_a_rule_failed_to_judge_says_so(run):
    states = (DetectorState("AAA001", "one", "passed"), DetectorState("BBB001", "two", "failed", "ValueError: odd"))
    judged = RunResult(run.path, run.status, 1, "not-judged", (), states, reason="BBB001 failed to judge")
    tree = parse(render_report(run, judged, tool=TOOL))
    assert tree.one("p", class_="verdict").text == "Not judged BBB001 failed to judge: this is not a pass."
    assert "Nothing was judged" not in tree.one("section", id="findings").text


def test_the_card_says_how_the_run_ended_and_what_is_missing(tmp_path, run):
    def ended(**options):
        path = write_run(tmp_path / str(options), {"loss": [1.0, 2.0]}, **options)
        (path / "steps" / "a00-r000-000009.parquet").write_bytes(b"torn")
        return rendered(open_run(path)).one("section", class_="card").text

    assert "Ended Failed ValueError: odd" in ended(end="failed", exception="ValueError: odd")
    assert "Ended Unfinished no end file: killed, or still running" in ended(end=None)
    torn = ended(end="completed")
    assert "Ended Completed" in torn
    assert "Missing from the recording" in torn
    assert "a00-r000-000009.parquet" in torn
    assert "Missing from the recording" not in rendered(run).one("section", class_="card").text


def test_what_was_not_recorded_has_a_reason_where_its_chart_would_be(tmp_path):
    tree = rendered(bare_run(tmp_path))
    instruments = tree.one("section", id="instruments").all("div", class_="absent")
    absent = {part.one("dt").text: part.one("dd").text for part in instruments}
    assert len(absent) > 20
    assert absent["Step size: alpha"].startswith("No instrument of this run records")
    assert all(absent.values())
    assert len(tree.one("section", id="layers").all("div", class_="absent")) == 4
    assert [figure.one("h4").text for figure in tree.all("figure")] == ["Loss"]
    assert "Not recorded in this run." in tree.one("section", id="audits").text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    run = hostile_run(tmp_path_factory.mktemp("hostile"))
    return render_report(run, judged(run, hostile_finding()), tool=TOOL)


def test_hostile_names_are_text_everywhere(hostile):
    tree = parse(hostile)
    assert len(tree.all("h1")) == 1
    assert not tree.all("img")
    assert not [e for e in tree.walk() if any(name.startswith("on") for name in e.attributes)]
    assert HOSTILE[0] in tree.one("section", class_="card").text
    assert "{{ 7 * 7 }}" in tree.one("section", id="findings").text
    assert len(tree.all("script")) == len(tree.all("figure")) + 4


def strings_under(value: object, keys: set[str]) -> list[str]:
    """All strings that stand under one of these keys, at any depth."""
    if isinstance(value, list):
        return [found for item in value for found in strings_under(item, keys)]
    if not isinstance(value, dict):
        return []
    here = [item for key, item in value.items() if key in keys and isinstance(item, str)]
    return here + [found for item in value.values() for found in strings_under(item, keys)]


def test_hostile_names_are_neither_fields_nor_parts_of_expressions(hostile):
    marks = [spec for spec in specs(parse(hostile)) if spec.pop("datasets")]
    used = strings_under(marks, {"field", "labelExpr", "calculate", "filter", "expr", "test", "signal"})
    assert {"step", "mid", "series", "row"} < set(used)
    assert not [text for text in used for name in HOSTILE if name[:10] in text]


def test_a_page_can_always_be_written_as_utf8(hostile):
    assert hostile.encode("utf-8")


def test_a_run_of_nan_gives_a_page_of_finite_json(tmp_path):
    run = nan_run(tmp_path)
    tree = rendered(run, finding(chart=ChartRef("steps", "loss", (), 1.0)))
    found = [json.dumps(spec, allow_nan=False) for spec in specs(tree)]
    assert len(found) > 10
    assert "not finite" in tree.one("section", id="instruments").text


def test_a_chart_that_cannot_be_drawn_leaves_a_sentence_and_the_rest_of_the_report(run, monkeypatch):
    from analyzer.charts.loss import Loss

    monkeypatch.setattr(Loss, "draw", lambda self, run: 1 / 0)
    tree = rendered(run)
    (absent,) = [part.text for part in tree.all("div", class_="absent") if "could not" in part.text]
    assert absent.startswith("Loss This chart could not be drawn (ZeroDivisionError")
    assert len(tree.all("figure")) > 10


def test_the_same_run_gives_the_same_page(run, page):
    assert render_report(run, judged(run, CAUSE, NOTE), tool=TOOL) == page


def test_two_thousand_tensors_give_a_page_of_ordinary_size(tmp_path):
    run = full_run(tmp_path, 12, [f"layers.{i}.weight" for i in range(2_000)])
    page = render_report(run, judged(run, finding(tensors=("layers.1777.weight",))), tool=TOOL)
    assert len(page) < 3e6
    assert "96 tensors of 2\u202f000 are drawn" in page
    assert "layers.1777.weight" in page


def test_a_report_needs_no_pyarrow(tmp_path):
    run = full_run(tmp_path, 10)
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from analyzer.engine import judge\nfrom analyzer.outputs.html import render_report\n"
        "from analyzer.run import open_run\n"
        f"run = open_run({run.path!r})\n"
        "page = render_report(run, judge([run]).runs[0], tool='x')\n"
        "assert 'could not be drawn (' not in page and page.count('<figure') > 10"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root)
