"""SVG files that stand alone: title, legend and colours are inside, names are safe."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from support.pages import HOSTILE, full_run, hostile_run

from analyzer.charts import CHARTS
from analyzer.charts.base import Figure
from analyzer.page.standalone import document, drawings

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return full_run(tmp_path_factory.mktemp("standalone"), 60)


def named(name: str):
    return next(chart for chart in CHARTS if chart.name == name)


def test_a_picture_has_its_title_its_legend_and_what_a_screen_reader_says(run):
    (figure,) = named("clipping").figures(run)
    assert isinstance(figure, Figure)
    root = ET.fromstring(document(figure))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert root.find(f"{SVG}title").text == words[0] == figure.title
    assert root.find(f"{SVG}desc").text == figure.description
    assert set(words) >= {key.label for key in figure.keys} != set()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert 600 < width < 1000
    assert 200 < height < 600


def test_colours_are_values_and_nothing_is_asked_for(run):
    for name in ("alpha", "gradient-heatmap", "learning-rate"):
        for _, picture in drawings(run, named(name)):
            assert "var(" not in picture
            assert not re.search(r"<script|<image|href|url\((?!#)", picture)
            assert set(re.findall(r"https?://[^\"]*", picture)) == {"http://www.w3.org/2000/svg"}


def test_a_chart_with_several_figures_names_each(run):
    assert [name for name, _ in drawings(run, named("loss"))] == ["loss.svg"]
    names = [name for name, _ in drawings(run, named("tensor-history"))]
    assert names == [f"tensor-history-{tensor}.svg" for tensor in ("0-weight", "0-bias", "2-weight", "2-bias")]
    for _, picture in drawings(run, named("tensor-history")):
        assert "gradient norm" in picture, "the legend that the page shows once for all of them"


def test_hostile_names_are_words_and_no_paths(tmp_path):
    run = hostile_run(tmp_path)
    found = [drawing for chart in CHARTS for drawing in drawings(run, chart)]
    names = [name for name, _ in found]
    assert len(set(names)) == len(names) > len(HOSTILE)
    assert all(re.fullmatch(r"[a-z0-9-]{1,80}\.svg", name) for name in names)
    for name, picture in found:
        tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(picture).iter()}
        assert not tags & {"script", "img", "image", "b"}, name
