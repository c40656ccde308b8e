"""Charts as SVG: the same picture, in fewer bytes, with nothing in it that acts."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from itertools import islice

import altair as alt
import polars as pl
import pytest
import vl_convert
from support.pages import HOSTILE, full_run, hostile_run, nan_run

from analyzer.charts import CHARTS
from analyzer.charts.base import Figure
from analyzer.charts.grid import SHORT
from analyzer.charts.theme import CONFIG
from analyzer.page.specs import specification
from analyzer.page.svg import draw, serialised

WIDTH = 420


def figures(run) -> dict[str, Figure]:
    """The first figure of each chart that the run can fill, by the chart's name."""
    drawn = {chart.name: next(islice(chart.figures(run), 1), None) for chart in CHARTS}
    return {name: figure for name, figure in drawn.items() if isinstance(figure, Figure)}


@pytest.fixture(scope="module")
def charts(tmp_path_factory) -> dict[str, Figure]:
    return figures(full_run(tmp_path_factory.mktemp("svg"), 300))


def raw(figure: Figure) -> ET.Element:
    """What vl-convert makes of the same specification."""
    spec = specification(figure.chart) | {"width": WIDTH, "autosize": {"type": "fit-x", "contains": "padding"}}
    return ET.fromstring(vl_convert.vegalite_to_svg(json.dumps(spec), vl_version="6.4", config=CONFIG))


def words(svg: ET.Element) -> list[str]:
    return [element.text for element in svg.iter() if element.tag.endswith("text") and element.text]


def test_every_chart_is_the_same_picture_in_half_the_bytes_or_less(charts) -> None:
    assert len(charts) > 10
    for name, figure in charts.items():
        whole, short = raw(figure), draw(figure.chart, CONFIG, width=WIDTH, name=name)
        assert words(short) == words(whole), name
        assert short.attrib["viewBox"] == whole.attrib["viewBox"]
        assert len(serialised(short)) < 0.5 * len(ET.tostring(whole)), name


def test_nothing_in_a_picture_acts_or_points_elsewhere(charts) -> None:
    for figure in charts.values():
        written = serialised(draw(figure.chart, CONFIG, width=WIDTH, name="x"))
        assert not re.search(r"<(script|style|image|a|use|foreignObject)\b|href|\bon\w+=|url\((?!#x-)", written)


def test_ids_are_those_of_the_picture_whatever_was_drawn_before(charts) -> None:
    heatmap = charts["gradient-heatmap"].chart
    one, other = (serialised(draw(heatmap, CONFIG, width=WIDTH, name=name)) for name in ("chart-1", "chart-2"))
    assert set(re.findall(r'id="([^"]*)"|url\(#([^)]*)\)', one)) == {("chart-1-0", ""), ("", "chart-1-0")}
    assert other == one.replace("chart-1-0", "chart-2-0")


def test_cells_of_a_heatmap_are_joined_by_shade() -> None:
    rows = [{"x": x, "y": y, "v": x + 0.37 * y} for x in range(30) for y in range(10)]
    cells = alt.layer(alt.Chart(pl.DataFrame(rows)).mark_rect().encode(x="x:O", y="y:O", color="v:Q"), height=100)
    svg = draw(cells, CONFIG, width=WIDTH, name="x")
    lines = [path.attrib for path in svg.iter("path") if "stroke" in path.attrib and "fill" not in path.attrib]
    assert 5 < len(lines) < 60
    assert len({line["stroke"] for line in lines}) == len(lines)
    drawn = [place for line in lines for place in re.findall(r"M([\d.]+),([\d.]+)h([\d.]+)", line["d"])]
    assert len({(x, y) for x, y, _ in drawn}) == 300
    (height,) = (group.attrib["stroke-width"] for group in svg.iter("g") if len(group) == len(lines))
    assert (float(height), float(drawn[0][2])) == pytest.approx((10.0, 12.0), abs=2.0)


TAGS = {"svg", "g", "path", "line", "text", "defs", "linearGradient", "stop"}


def picture(figure: Figure) -> str:
    return serialised(draw(figure.chart, CONFIG, width=WIDTH, name="x"))


def test_hostile_names_stay_words(tmp_path) -> None:
    found = figures(hostile_run(tmp_path))
    assert {"gradient-heatmap", "learning-rate"} <= found.keys()
    for figure in found.values():
        assert {element.tag for element in ET.fromstring(picture(figure)).iter()} <= TAGS
    heatmap = words(ET.fromstring(picture(found["gradient-heatmap"])))
    assert any(word.endswith(HOSTILE[0][-20:]) for word in heatmap)


@pytest.mark.parametrize("name", ["\0", "\x1b[31m", "\ufffe", "a\nb", "", "\U0001f525" * 40 + "x", "\ud800"])
def test_names_that_no_file_can_hold_harm_nothing(name: str) -> None:
    rows = [{"x": 1, "y": f"{name}{place}"} for place in range(3)]
    axis = alt.Axis(labelExpr=SHORT)
    marks = alt.Chart(alt.Data(values=rows)).mark_point().encode(x="x:Q", y=alt.Y("y:N", axis=axis))
    svg = draw(alt.layer(marks, height=60), CONFIG, width=WIDTH, name="x")
    ET.fromstring(serialised(svg).encode())
    assert len([word for word in words(svg) if word[-1] in "012"]) >= 3


def test_a_run_of_nan_is_drawn_with_finite_numbers(tmp_path) -> None:
    for figure in figures(nan_run(tmp_path)).values():
        assert not re.search(r"NaN|Infinity|undefined|null", picture(figure))


def test_a_number_that_is_not_finite_is_an_error() -> None:
    chart = alt.layer(alt.Chart(alt.Data(values=[{"x": float("nan")}])).mark_point().encode(x="x:Q"), height=50)
    with pytest.raises(ValueError, match="JSON"):
        draw(chart, CONFIG, width=WIDTH, name="x")
