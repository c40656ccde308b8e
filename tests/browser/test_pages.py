"""The pages in Chromium: they draw everything, ask for nothing, and work with a keyboard and on paper."""

from __future__ import annotations

import re

import pytest
from support.pages import finding, judged, long_run
from support.visits import ALL_DRAWN, PAGES, watched

from analyzer.engine import TOOL
from analyzer.findings import ChartRef
from analyzer.outputs.html import render_report


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_is_drawn_with_finite_numbers_and_the_page_asks_for_nothing(drawn, name):
    seen = drawn(name)
    assert seen.messages == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [seen.page.url]
    pictures = seen.page.eval_on_selector_all(".slot svg", "all => all.map((one) => one.outerHTML)")
    canvases = seen.page.locator(".slot canvas").count()
    assert len(pictures) + canvases == len(seen.states()) > 0
    assert not [svg for svg in pictures if re.search(r"NaN|Infinity|undefined", svg)]
    marks = "all => all.map((one) => one.querySelectorAll('[class*=mark-] path, [class*=mark-] line').length)"
    assert all(amount > 1 for amount in seen.page.eval_on_selector_all(".slot svg", marks))
    labels = seen.page.eval_on_selector_all(".slot[aria-label], .slot [aria-label]", "all => all.map(e => e.ariaLabel)")
    assert len([label for label in labels if "step" in label]) >= len(seen.states())


def test_a_million_steps_are_a_page_like_any_other_and_a_spike_of_one_step_is_on_it(chromium, tmp_path):
    run = long_run(tmp_path)
    page = tmp_path / "long.html"
    page.write_text(render_report(run, judged(run, finding(chart=ChartRef("steps", "loss"))), tool=TOOL))
    assert page.stat().st_size < 1.5e6
    seen = watched(chromium.new_page())
    seen.page.goto(page.as_uri())
    seen.draw_all()
    assert seen.messages == []
    labels = seen.page.locator("#chart-loss .role-axis-label text").all_text_contents()
    assert "800\u202f000" in labels
    assert "99 (step 333\u202f333)" in seen.page.locator("#chart-loss .slot").get_attribute("aria-label")
    seen.page.close()


@pytest.mark.parametrize("name", [*PAGES, "index"])
def test_nothing_sticks_out_on_a_phone(visit, name):
    seen = visit(name, width=390)
    if name != "index":
        seen.draw_all()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = "all => all.filter((one) => one.getBoundingClientRect().right > innerWidth + 1).length"
    assert seen.page.eval_on_selector_all(".slot svg, .slot canvas, h1, h2, h3, h4, nav a", wide) == 0


def test_what_the_levels_of_alpha_mean_is_not_cut_on_a_phone(visit):
    shown = visit("healthy", width=390).page.get_by_text("no step, 0 minimum, 1 far side")
    assert shown.count() == 1
    assert shown.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_hostile_names_run_no_script(drawn):
    seen = drawn("hostile")
    assert "owned" not in seen.page.evaluate("document.title.replace(/.*?: /, '')")
    assert seen.page.locator("img").count() == 0
    assert seen.messages == []


def test_the_first_screen_is_drawn_first_and_the_rest_without_anyone_scrolling(visit):
    seen = visit("faulty")
    seen.page.wait_for_function("() => document.querySelector('.finding .slot').dataset.state === 'drawn'")
    assert seen.states().count("waiting") > 10
    seen.page.wait_for_function(ALL_DRAWN)
    assert seen.page.evaluate("scrollY") == 0
    assert seen.page.locator("details:not([open])").count() > 10, "also what is folded"


def test_the_keyboard_reaches_the_findings_and_opens_folds(visit):
    seen = visit("faulty")
    seen.page.keyboard.press("Tab")
    focused = "() => document.activeElement.textContent"
    assert seen.page.evaluate(focused) == "Skip to the findings"
    assert seen.page.locator(".skip").bounding_box()["x"] >= 0
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("() => document.activeElement.id") == "findings"
    for _ in range(12):
        seen.page.keyboard.press("Tab")
        if "Exploding gradients" in seen.page.evaluate(focused):
            break
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("() => document.getElementById('GRD001').open")
    seen.page.wait_for_function("() => document.querySelector('#GRD001 .slot').dataset.state === 'drawn'")
    outline = seen.page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_link_to_a_folded_symptom_opens_it(visit):
    seen = visit("faulty", anchor="#GRD001")
    assert seen.page.evaluate("() => document.getElementById('GRD001').open")
    seen.page.wait_for_function("() => document.querySelector('#GRD001 .slot').dataset.state === 'drawn'")


def test_on_paper_every_chart_is_drawn_in_light_colours_and_then_all_is_as_before(visit, tmp_path):
    seen = visit("faulty", theme="dark")
    folded = seen.page.locator("details:not([open])").count()
    assert folded > 10
    seen.page.evaluate(
        """() => addEventListener("beforeprint", () => {
            window.ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
            window.folded = document.querySelectorAll("details:not([open])").length;
        })"""
    )
    seen.page.pdf(path=tmp_path / "report.pdf", format="A4")
    seen.page.wait_for_function(ALL_DRAWN)
    assert seen.page.evaluate("[window.ink, window.folded]") == ["#17212b", 0]
    assert seen.page.locator("details:not([open])").count() == folded
    assert seen.messages == []
    seen.page.pdf(path=tmp_path / "again.pdf", format="A4")
    first, again = ((tmp_path / name).stat().st_size for name in ("report.pdf", "again.pdf"))
    assert first > 0.95 * again > 100_000, "charts that nobody had looked at are on the first print too"


def test_a_change_of_theme_redraws_what_cannot_follow_by_itself(visit):
    seen = visit("healthy")
    seen.draw_all()
    pixels = "() => document.querySelector('.slot canvas').toDataURL()"
    light = seen.page.evaluate(pixels)
    seen.page.emulate_media(color_scheme="dark")
    seen.page.wait_for_function(f"(before) => ({pixels})() !== before", arg=light)
    seen.page.wait_for_function(ALL_DRAWN)
    assert seen.messages == []


CONTRASTS = """() => {
    const style = getComputedStyle(document.documentElement);
    const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = (name) => {
        const hex = style.getPropertyValue(name).trim();
        const [r, g, b] = [1, 3, 5].map((at) => channel(parseInt(hex.slice(at, at + 2), 16)));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, two) => {
        const [low, high] = [light(one), light(two)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const words = ["ink", "muted", "link", "error", "warning", "note", "pass", "quiet"];
    const pair = (name, behind, wanted) => [name, behind, contrast(`--${name}`, `--${behind}`), wanted];
    const texts = words.flatMap((name) => ["page", "panel"].map((behind) => pair(name, behind, 4.5)));
    const pills = ["error", "warning", "note", "pass", "quiet"].map((name) => pair(name, `${name}-wash`, 4.5));
    const lines = [1, 2, 3, 4, 5, 6].map((n) => pair(`series-${n}`, "panel", 3));
    return [...texts, ...pills, ...lines].filter(([, , found, wanted]) => !(found >= wanted));
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_lines_stand_out_from_what_is_behind_them(visit, theme):
    assert visit("bare", theme=theme).page.evaluate(CONTRASTS) == []


def test_the_index_leads_to_the_reports_and_needs_no_script(chromium, files):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["index"].as_uri())
    page.get_by_role("link", name="STP001").first.click()
    assert page.url.endswith(".html#STP001")
    assert page.locator("#STP001 .message").is_visible()
    assert page.locator(".fallback").first.is_visible(), "without a script a chart says what it would show"
    context.close()
