"""The pages on several runs in Chromium: a comparison, a report beside its baseline, and the index of a night."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.pages import bare_run, finding, full_run, hostile_finding, hostile_run, judged, nan_run, one_step_run
from support.visits import Visit, watched

from analyzer.baseline import against
from analyzer.engine import TOOL
from analyzer.nightly.summary import Entry, Mark, Summary
from analyzer.outputs.comparison import render_comparison
from analyzer.outputs.html import render_report
from analyzer.page.nightly import render_site
from analyzer.page.sparkline import loss_sparkline

SHOWN = "() => [...document.querySelectorAll('.index tbody tr:not([hidden]) th')].map((cell) => cell.dataset.sort)"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("several")
    plain = full_run(folder, name="plain")
    hot = full_run(folder, name="hot", loss=[2.3 + 0.3 * (s % 7) for s in range(200)])
    odd = [hostile_run(folder), nan_run(folder), one_step_run(folder), bare_run(folder)]
    pages = {
        "comparison": compared(plain, hot),
        "odd": compared(*odd),
        "baseline": beside(hot, plain),
        "index": render_site(night(plain), tool=TOOL),
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


def compared(*runs) -> str:
    results = [judged(run, *((hostile_finding(),) if i == 0 else ())) for i, run in enumerate(runs)]
    return render_comparison(runs, results, tool=TOOL)


def beside(run, base) -> str:
    before = judged(base, finding("GRD001", chart=None))
    return render_report(run, against(judged(run, finding()), before), tool=TOOL, baseline=(base, before))


def night(run) -> Summary:
    """Thirty runs, of which some failed, some changed, one is broken and one goes on."""
    line = loss_sparkline(run)
    assert line is not None

    def entry(i: int, **changes: Any) -> Entry:
        failed = i % 5 == 0
        marks = (Mark("STP001", "learning-rate-too-large", "error", "m"),) if failed else ()
        values: dict[str, Any] = {
            "run": f"group-{i % 3}/run-{i}",
            "report": f"runs/{i}/report.html",
            "fingerprint": "x",
            "judged": "2030-01-02T03:04:05+00:00",
            "verdict": "fail" if failed else "pass",
            "status": "completed",
            "running": False,
            "steps": 100 * i,
            "line": "Learning rate too large" if failed else "12 rules judged this run, and none fired.",
            "counts": {"error": int(failed), "warning": 0, "note": 0},
            "findings": marks,
            "new": marks if i == 10 else (),
            "gone": (),
            "started": f"2030-01-01T{i % 24:02}:00:00+00:00",
            "sparkline": replace(line, end=float(i)),
        }
        return Entry(**(values | changes))

    entries = [entry(i) for i in range(28)]
    entries.append(entry(28, run="going", running=True, status="unfinished"))
    entries.append(
        entry(
            29,
            run="torn",
            report=None,
            verdict="not-judged",
            status="unreadable",
            problem="It is torn.",
            sparkline=None,
        )
    )
    made = "2030-01-02T03:05:00+00:00"
    return Summary(tool=TOOL, root="/data/runs", made=made, fail_on="error", reported=3, runs=tuple(entries))


@pytest.fixture
def visit(chromium, files):
    contexts = []

    def open_page(name: str, *, width: int = 1280, theme: str = "light", script: bool = True) -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        context.set_default_timeout(120_000)  # others may keep the machine busy
        contexts.append(context)
        seen = watched(context.new_page())
        seen.page.goto(files[name].as_uri())
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", ["comparison", "odd", "baseline"])
def test_every_chart_is_drawn_and_nothing_is_asked_for_or_said(visit, name):
    seen = visit(name)
    seen.draw_all()
    page = seen.page
    assert seen.messages == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [page.url]
    drawn = page.eval_on_selector_all(".slot svg", "all => all.map((one) => one.outerHTML)")
    assert len(drawn) > 3
    assert not [svg for svg in drawn if re.search(r"NaN|Infinity|undefined", svg)]
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["comparison", "odd", "index"])
def test_nothing_sticks_out_on_a_phone(visit, name, theme):
    seen = visit(name, width=390, theme=theme)
    seen.draw_all()
    page = seen.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    beyond = "!one.closest('.scroll') && one.getBoundingClientRect().right > innerWidth + 1"
    wide = f"all => all.filter((one) => {beyond}).length"
    assert page.eval_on_selector_all(".slot svg, h1, h2, h3, nav a, td, th, select, input", wide) == 0


@pytest.mark.parametrize(("name", "theme"), [("comparison", "dark"), ("baseline", "light"), ("index", "light")])
def test_axe_finds_no_violation(visit, axe, name, theme):
    seen = visit(name, theme=theme)
    seen.draw_all()
    violations = axe.run(seen.page).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"][:200]) for found in violations] == []


def test_the_curves_of_all_runs_are_read_at_once(visit):
    seen = visit("comparison")
    seen.draw_all()
    page = seen.page
    slot = page.locator("#curves .slot").nth(1)
    slot.scroll_into_view_if_needed()
    slot.hover(position={"x": 250, "y": 60})
    read = slot.locator(".readout").inner_text()
    assert re.search(r"step \d+", read)
    assert {"plain", "hot"} <= set(re.findall(r"[a-z]+", read))
    assert page.locator("#curves .crosshair:visible").count() > 1


def test_the_keyboard_reaches_tables_and_charts_of_a_comparison(visit):
    seen = visit("comparison")
    seen.draw_all()
    page = seen.page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "runs"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.ariaLabel ?? document.activeElement.textContent"))
    assert {"Table of runs", "Table of where the runs part"} <= reached
    assert [label for label in reached if label.startswith("Loss of 2 runs")]


def test_the_index_sorts_by_every_column_in_both_directions(visit):
    seen = visit("index")
    page = seen.page
    first = page.evaluate(SHOWN)
    assert first[:2] == ["group-0/run-0", "group-0/run-15"]
    page.get_by_role("button", name="Run", exact=True).click()
    assert page.evaluate(SHOWN)[:3] == ["going", "group-0/run-0", "group-0/run-3"], "numbers in names count as such"
    page.get_by_role("button", name="Steps").click()
    assert page.evaluate(SHOWN)[0] == "torn", "most steps first"
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Steps")
    page.get_by_role("button", name="Steps").click()
    assert page.evaluate(SHOWN)[0] == "group-0/run-0"
    for descending in (False, True):
        page.get_by_role("button", name="Loss").click()
        assert page.evaluate(SHOWN)[-1] == "torn", "what has no loss is last in both directions"
        assert page.evaluate(SHOWN)[0] == ("going" if descending else "group-0/run-0")
    page.get_by_role("button", name="Change").click()
    assert page.evaluate(SHOWN)[0] == "group-1/run-10"
    assert seen.messages == []


def test_the_index_filters_by_words_and_by_what_became_of_a_run(visit):
    seen = visit("index")
    page = seen.page
    count = page.locator(".toolbar output")
    assert count.inner_text() == "30 runs"
    page.get_by_role("searchbox").fill("GROUP-1 stp001")
    assert set(page.evaluate(SHOWN)) == {"group-1/run-10", "group-1/run-25"}
    assert count.inner_text() == "2 of 30 runs"
    page.keyboard.press("Escape")
    for chosen, runs in (("changed", ["group-1/run-10"]), ("running", ["going"]), ("broken", ["torn"])):
        page.get_by_label("Show").select_option(chosen)
        assert page.evaluate(SHOWN) == runs
    page.get_by_role("searchbox").fill("nothing like it")
    assert page.get_by_text("No run is like that.").is_visible()
    assert seen.messages == []


def test_the_index_works_by_keyboard_alone(visit):
    page = visit("index").page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for _ in range(9):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.textContent") == "Loss":
            break
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort]").inner_text().startswith("Loss")
    assert outline == "solid"


def test_a_phone_sorts_by_a_list(visit):
    page = visit("index", width=390).page
    assert not page.locator(".index thead").is_visible()
    page.get_by_label("Sort by").select_option(label="Steps, descending")
    assert page.evaluate(SHOWN)[0] == "torn"


def test_without_script_the_index_is_a_plain_table(visit):
    page = visit("index", script=False).page
    assert not page.locator(".toolbar").is_visible()
    assert page.locator(".index tbody tr").count() == 30
    assert page.get_by_role("link", name="group-0/run-0").get_attribute("href") == "runs/0/report.html"
