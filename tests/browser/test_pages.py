"""The pages in Chromium: they draw everything, ask for nothing, and work with a keyboard and on paper."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import browser
from support.pages import bare_run, finding, full_run, hostile_finding, hostile_run, judged, nan_run, one_step_run

from analyzer.engine import TOOL
from analyzer.findings import ChartRef
from analyzer.outputs.html import render_report
from analyzer.page.index import index_entry, render_index

MANY = [f"layers.{i}.weight" for i in range(16)]
SYMPTOM = finding("GRD001", name="exploding-gradients", severity="warning", chart=ChartRef("layers", "grad_norm"))
FAULTY = finding(explains=(SYMPTOM,))

PAGES: dict[str, Any] = {
    "healthy": (full_run, ()),
    "faulty": (lambda path: full_run(path, 400, MANY), (FAULTY,)),
    "nan": (nan_run, (finding("NUM001", chart=ChartRef("steps", "loss", (), 1.0)),)),
    "one-step": (one_step_run, (finding(first_step=0, last_step=0, chart=ChartRef("steps", "loss", (), 2.0)),)),
    "bare": (bare_run, ()),
    "hostile": (hostile_run, (hostile_finding(),)),
}

SCROLL = """async () => {
    document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
    for (let y = 0; y <= document.documentElement.scrollHeight; y += 500) {
        scrollTo({ top: y, behavior: "instant" });
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 5)));
    }
}"""
STATES = "() => [...document.querySelectorAll('[data-chart]')].map((slot) => slot.dataset.state ?? 'waiting')"
ALL_DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every((slot) => slot.dataset.state === 'drawn')"


@pytest.fixture(scope="session")
def chromium():
    reason = browser.why_absent()
    if reason and os.environ.get("CI"):
        pytest.fail(f"the report cannot be tested: {reason}")
    if reason:
        pytest.skip(reason)
    with browser.chromium() as started:
        yield started


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    written, entries = {}, []
    for name, (build, findings) in PAGES.items():
        run = build(folder / name)
        result = judged(run, *findings)
        written[name] = folder / f"{name}.html"
        written[name].write_text(render_report(run, result, tool=TOOL), encoding="utf-8")
        entries.append(index_entry(run, result, f"{name}.html"))
    written["index"] = folder / "index.html"
    written["index"].write_text(render_index(entries, title="All", tool=TOOL), encoding="utf-8")
    return written


@dataclass
class Visit:
    """An open page with all that it asked for and said."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def states(self) -> list[str]:
        return self.page.evaluate(STATES)

    def draw_all(self) -> None:
        self.page.evaluate(SCROLL)
        self.page.wait_for_function(ALL_DRAWN)


@pytest.fixture
def visit(chromium, files):
    contexts = []

    def open_page(name: str, *, width: int = 1280, theme: str = "light", anchor: str = "") -> Visit:
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.on("console", lambda message: found.messages.append(message.text))
        found.page.on("pageerror", lambda error: found.messages.append(str(error)))
        found.page.on("dialog", lambda dialog: found.messages.append(dialog.message))
        found.page.goto(files[name].as_uri() + anchor)
        return found

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_is_drawn_with_finite_numbers_and_the_page_asks_for_nothing(visit, name):
    seen = visit(name)
    seen.draw_all()
    assert seen.messages == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [seen.page.url]
    drawn = seen.page.eval_on_selector_all(".slot svg", "all => all.map((one) => one.outerHTML)")
    canvases = seen.page.locator(".slot canvas").count()
    assert len(drawn) + canvases == len(seen.states()) > 0
    assert not [svg for svg in drawn if re.search(r"NaN|Infinity|undefined", svg)]
    marks = "all => all.map((one) => one.querySelectorAll('[class*=mark-] path, [class*=mark-] line').length)"
    assert all(amount > 1 for amount in seen.page.eval_on_selector_all(".slot svg", marks))
    labels = seen.page.eval_on_selector_all(".slot[aria-label], .slot [aria-label]", "all => all.map(e => e.ariaLabel)")
    assert len([label for label in labels if "step" in label]) >= len(seen.states())


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


def test_hostile_names_run_no_script(visit):
    seen = visit("hostile")
    seen.draw_all()
    assert "owned" not in seen.page.evaluate("document.title.replace(/.*?: /, '')")
    assert seen.page.locator("img").count() == 0
    assert seen.messages == []


def test_only_the_first_screen_is_drawn_at_first(visit):
    seen = visit("faulty")
    seen.page.wait_for_function("() => document.querySelector('.finding .slot').dataset.state === 'drawn'")
    assert seen.states().count("waiting") > 10


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
    assert (tmp_path / "report.pdf").stat().st_size > 100_000
    assert seen.messages == []


def test_the_pointer_reads_values_off_a_chart(visit):
    seen = visit("faulty")
    slot = seen.page.locator(".finding > .figure .slot")
    seen.page.wait_for_function("() => document.querySelector('.finding .slot').dataset.state === 'drawn'")
    slot.scroll_into_view_if_needed()
    box = slot.bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    text = slot.locator(".readout").inner_text()
    assert re.match(r"step \d+\n\u2212?[\d.]+", text)
    seen.page.mouse.move(5, 5)
    assert not slot.locator(".readout").is_visible()


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
