"""The same steps in all charts: by pointer, by keyboard, by numbers, and from a finding."""

from __future__ import annotations

import re

import pytest

LOSS, RATE, NORM = "#chart-loss .slot", "#chart-learning-rate .slot", "#chart-gradient-norm .slot"

STEPS_SHOWN = """(selector) => {
    const svg = document.querySelector(selector + " svg");
    const texts = [...svg.querySelectorAll(".role-axis-label text")];
    const lowest = Math.max(...texts.map((text) => text.getCTM().f));
    const foot = texts.filter((text) => Math.abs(text.getCTM().f - lowest) < 2);
    const labels = foot.map((text) => Number(text.textContent.replace(/\\s/g, "")));
    return [Math.min(...labels), Math.max(...labels)];
}"""
"""Lowest and highest label of the axis of steps of a chart."""


@pytest.fixture(scope="module")
def page(opened):
    seen = opened("faulty", width=1400)
    seen.draw_all()
    return seen


@pytest.fixture
def faulty(page):
    """The page with all steps shown, and the pointer nowhere."""
    page.page.emulate_media(color_scheme="light")
    page.page.evaluate("scrollTo(0, 0)")
    page.page.mouse.move(5, 5)
    if page.page.locator("#steps [name=all]").is_enabled():
        page.page.locator("#steps [name=all]").click()
    return page


def shown_within(selector, first, last):
    return f"() => {{ const [a, b] = ({STEPS_SHOWN})('{selector}'); return {first} <= a && b <= {last}; }}"


def centre(seen, selector, across=0.5):
    slot = seen.page.locator(selector)
    slot.scroll_into_view_if_needed()
    box = slot.bounding_box()
    return box["x"] + across * box["width"], box["y"] + 70


def test_the_pointer_reads_the_same_step_off_every_chart_in_view(faulty):
    faulty.page.evaluate("document.getElementById('chart-alpha').scrollIntoView()")
    faulty.page.mouse.move(*centre(faulty, "#chart-update-size .slot"))
    leading = faulty.page.locator("#chart-update-size .readout").inner_text()
    assert re.match(r"step \d+\n[\d.]+", leading)
    echoes = faulty.page.locator(".readout.echo:visible")
    assert echoes.count() >= 1
    assert faulty.page.locator(".crosshair:visible").count() >= 3
    step = int(leading.split()[1])
    assert step == pytest.approx(200, abs=20), "the middle of 400 steps"
    faulty.page.mouse.move(5, 5)
    assert faulty.page.locator(".crosshair:visible, .readout:visible").count() == 0


def test_brushing_one_chart_shows_these_steps_in_all_and_a_double_click_all_again(faulty):
    whole = faulty.page.evaluate(STEPS_SHOWN, LOSS)
    x, y = centre(faulty, LOSS, 0.3)
    faulty.page.mouse.move(x, y)
    faulty.page.mouse.down()
    faulty.page.mouse.move(x + 60, y)
    faulty.page.locator("#chart-loss .brush").wait_for(state="visible")
    faulty.page.mouse.move(x + 120, y)
    faulty.page.mouse.up()
    first, last = (int(faulty.page.locator(f"#steps [name={name}]").input_value()) for name in ("first", "last"))
    assert 80 < first < last < 200
    for selector in (LOSS, RATE, NORM, "#chart-gradient-tests .slot"):
        faulty.page.locator(selector).scroll_into_view_if_needed()
        faulty.page.wait_for_function(shown_within(selector, first, last))
    faulty.page.locator(LOSS).dblclick()
    faulty.page.wait_for_function(f"() => ({STEPS_SHOWN})('{LOSS}').join() === '{whole[0]},{whole[1]}'")
    assert faulty.page.locator("#steps [name=all]").is_disabled()
    assert faulty.messages == []


def test_values_are_rescaled_to_the_steps_shown(faulty):
    spread = "() => [...document.querySelectorAll('#chart-loss .role-axis-label text')].map((text) => text.textContent)"
    before = faulty.page.evaluate(spread)
    faulty.page.locator("#steps [name=first]").fill("300")
    faulty.page.locator("#steps [name=first]").press("Enter")
    faulty.page.locator(LOSS).scroll_into_view_if_needed()
    faulty.page.wait_for_function(f"(before) => ({spread})().join() !== before", arg=",".join(before))
    values = [float(text) for text in faulty.page.evaluate(spread) if re.fullmatch(r"[\d.]+", text)]
    assert max(value for value in values if value < 100) < 1.0, "the loss began at 2.3, which is not shown any more"


def test_arrow_keys_read_values_and_select_steps(faulty):
    faulty.page.locator(LOSS).focus()
    reader = faulty.page.locator("#reader")
    for _ in range(3):
        faulty.page.keyboard.press("ArrowRight")
    assert re.match(r"step 2; .*\d", reader.inner_text()), reader.inner_text()
    faulty.page.keyboard.press("End")
    assert reader.inner_text().startswith("step 39")
    for key in ("Home", "Shift+ArrowRight", "Shift+PageDown"):
        faulty.page.keyboard.press(key)
    assert reader.inner_text().startswith("steps 0 to 11 selected")
    faulty.page.locator("#chart-loss .brush").wait_for(state="visible")
    faulty.page.keyboard.press("Enter")
    faulty.page.wait_for_function(f"() => ({STEPS_SHOWN})('{LOSS}')[1] <= 11")
    faulty.page.keyboard.press("Escape")
    faulty.page.wait_for_function(f"() => ({STEPS_SHOWN})('{LOSS}')[1] > 300")


def test_a_finding_leads_to_the_chart_of_its_panel_and_shows_its_steps_in_all(faulty):
    faulty.page.get_by_role("link", name="See its panel: Step size: alpha").click()
    assert faulty.page.evaluate("document.activeElement.id") == "chart-alpha"
    top = faulty.page.locator("#chart-alpha").bounding_box()["y"]
    assert 0 <= top < 400
    faulty.page.get_by_role("button", name="Show steps 0 to 74 in all charts").first.press("Enter")
    faulty.page.locator(LOSS).scroll_into_view_if_needed()
    faulty.page.wait_for_function(f"() => ({STEPS_SHOWN})('{LOSS}')[1] <= 74")


def test_numbers_out_of_range_or_out_of_order_are_put_right(faulty):
    fields = [faulty.page.locator(f"#steps [name={name}]") for name in ("first", "last")]
    for first, last, shown in (
        ("350", "320", ["320", "350"]),
        ("-9", "10", ["0", "10"]),
        ("7", "7", ["0", "399"]),
        ("", "50", ["0", "50"]),
    ):
        fields[0].fill(first)
        fields[1].fill(last)
        fields[1].press("Enter")
        assert [field.input_value() for field in fields] == shown
    assert faulty.messages == []


@pytest.mark.parametrize("name", ["one-step", "bare", "nan", "hostile"])
def test_odd_runs_can_be_pointed_at_and_brushed(drawn, name):
    seen = drawn(name)
    for slot in seen.page.locator("#instruments .slot.linked").all()[:4]:
        slot.scroll_into_view_if_needed()
        box = slot.bounding_box()
        seen.page.mouse.move(box["x"] + 100, box["y"] + 60)
        seen.page.mouse.down()
        seen.page.mouse.move(box["x"] + 200, box["y"] + 60)
        seen.page.mouse.up()
        slot.focus()
        for key in ("ArrowRight", "Shift+End", "Enter", "Escape"):
            seen.page.keyboard.press(key)
    assert seen.messages == []


def test_a_change_of_theme_keeps_what_is_shown(faulty):
    faulty.page.locator("#steps [name=last]").fill("100")
    faulty.page.locator("#steps [name=last]").press("Enter")
    faulty.page.emulate_media(color_scheme="dark")
    heat = "#chart-gradient-heatmap .slot"
    faulty.page.locator(heat).scroll_into_view_if_needed()
    faulty.page.wait_for_function(f"() => document.querySelector('{heat}').dataset.state === 'drawn'")
    faulty.page.mouse.move(*centre(faulty, heat))
    assert faulty.page.locator(f"{heat} .crosshair").is_visible()
    assert faulty.messages == []
