"""The pages without script in Chromium: nothing is asked for or said, and it is legible on a phone and in the dark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.pages import bare_run, finding, full_run, hostile_finding, hostile_run, judged, nan_run, one_step_run

from analyzer.charts import CHARTS
from analyzer.charts.base import Figure
from analyzer.charts.theme import CONFIG
from analyzer.engine import TOOL
from analyzer.findings import ChartRef
from analyzer.outputs.comparison import render_static_comparison
from analyzer.outputs.html import render_static_report
from analyzer.page.palette import resolved
from analyzer.page.specs import specification
from analyzer.page.svg import draw, serialised

FAULTY = finding(explains=(finding("GRD001", severity="warning", chart=ChartRef("layers", "grad_norm")),))
PAGES = {
    "faulty": (full_run, (FAULTY,)),
    "nan": (nan_run, (finding("NUM001", chart=ChartRef("steps", "loss", (), 1.0)),)),
    "one-step": (one_step_run, (finding(first_step=0, last_step=0, chart=ChartRef("steps", "loss", (), 2.0)),)),
    "bare": (bare_run, ()),
    "hostile": (hostile_run, (hostile_finding(),)),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("static-pages")
    written = {}
    for name, (build, findings) in PAGES.items():
        run = build(folder / name)
        written[name] = folder / f"{name}.html"
        page = render_static_report(run, judged(run, *findings), tool=TOOL, all_charts=name != "faulty")
        written[name].write_text(page, encoding="utf-8")
    runs = [
        full_run(folder, name="plain"),
        full_run(folder, name="hot", loss=[2.3 + 0.3 * (s % 7) for s in range(200)]),
    ]
    written["comparison"] = folder / "comparison.html"
    page = render_static_comparison(runs, [judged(run) for run in runs], tool=TOOL, all_charts=True)
    written["comparison"].write_text(page, encoding="utf-8")
    return written


@pytest.fixture
def visit(chromium, files):
    contexts = []

    def open_page(name: str, *, width: int = 1280, theme: str = "light"):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.goto(files[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", [*PAGES, "comparison"])
def test_the_page_asks_for_nothing_says_nothing_and_shows_its_pictures(visit, name):
    page = visit(name)
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert (page.said, [url for url in page.asked if not url.startswith("data:")]) == ([], [page.url])
    sizes = page.eval_on_selector_all(".still svg", "all => all.map((one) => one.getBoundingClientRect().width)")
    assert len(sizes) == page.locator("figure").count() > 0
    assert min(sizes) > 200
    drawn = page.eval_on_selector_all(".still svg", "all => all.map((one) => one.outerHTML)")
    assert not [svg for svg in drawn if re.search(r"NaN|Infinity|undefined", svg)]


@pytest.mark.parametrize("name", [*PAGES, "comparison"])
def test_nothing_sticks_out_on_a_phone(visit, name):
    page = visit(name, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(("width", "least", "most"), [(390, 8.5, 14), (1280, 12, 16)])
def test_letters_of_the_pictures_are_legible(visit, width: int, least: float, most: float):
    page = visit("faulty", width=width)
    sizes = page.eval_on_selector_all(
        ".still text",
        """all => all.filter((one) => one.checkVisibility()).map((one) =>
            parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)""",
    )
    assert len(sizes) > 20
    names_of_tensors = 10 / 12  # they are written smaller
    assert least * names_of_tensors <= min(sizes)
    assert max(sizes) <= most


@pytest.mark.parametrize(("theme", "color"), [("light", "rgb(86, 98, 110)"), ("dark", "rgb(163, 174, 185)")])
def test_pictures_follow_the_theme(visit, theme: str, color: str):
    page = visit("faulty", theme=theme)
    fills = page.eval_on_selector_all(".still text", "all => all.map((one) => getComputedStyle(one).fill)")
    assert color in fills


COMPARE = """async ([one, other]) => {
    const pixels = async (svg) => {
        const image = new Image();
        image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
        const context = canvas.getContext("2d");
        context.fillStyle = "#fff";
        context.fillRect(0, 0, canvas.width, canvas.height);
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        return context.getImageData(0, 0, canvas.width, canvas.height).data;
    };
    const [a, b] = [await pixels(one), await pixels(other)];
    if (a.length !== b.length) return { size: [a.length, b.length] };
    const off = a.map((value, at) => Math.abs(value - b[at]) > 48 ? 1 : 0).reduce((sum, one) => sum + one, 0);
    const ink = a.filter((value) => value < 200).length;
    return { off: off / a.length, ink: ink / a.length };
}"""


def test_a_short_picture_looks_like_the_one_that_vega_wrote(chromium, tmp_path):
    import vl_convert

    run = full_run(tmp_path, 200)
    page = chromium.new_page()
    seen = 0
    for chart in CHARTS:
        figure = next(iter(chart.figures(run)))
        if not isinstance(figure, Figure):
            continue
        spec = specification(figure.chart) | {"width": 420, "autosize": {"type": "fit-x", "contains": "padding"}}
        whole = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version="6.4", config=CONFIG)
        short = draw(figure.chart, CONFIG, width=420, name="x")
        short.attrib |= {"xmlns": "http://www.w3.org/2000/svg", "font-family": CONFIG["font"]}
        found = page.evaluate(COMPARE, [resolved(whole), resolved(serialised(short))])
        assert found["ink"] > 0.002, (chart.name, found)
        assert found["off"] < 0.01, (chart.name, found)
        seen += 1
    assert seen > 10
    page.close()
