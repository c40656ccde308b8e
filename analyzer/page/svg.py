"""Charts as SVG that needs no script: drawn by vl-convert, then written with no more than the picture needs.

What vl-convert writes is made for a program that goes on working with it: groups around groups, classes, defaults, and
coordinates with sixteen digits. A third of it, or less, is the picture.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import altair as alt
from markupsafe import Markup

from ..charts.mold import Cast
from ..wording import xml_text
from .paths import rounded, shorter
from .specs import specification

MANY = 100
"""Cells from which on those of nearly the same colour are written together."""
SHADES = 8
"""Levels of a colour channel that count as the same there."""

_SVG = "{http://www.w3.org/2000/svg}"
_VERSION = "6.4"
_USELESS = {"class", "role", "pointer-events", "version", "font-family"}
_DEFAULTS = {
    "opacity": "1",
    "stroke-width": "1",
    "stroke-opacity": "1",
    "fill-opacity": "1",
    "font-weight": "400",
    "text-anchor": "start",
    "transform": "translate(0,0)",
    "x2": "0",
    "y2": "0",
}
_NUMERIC = {"d", "transform", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy", "r"}
_INHERITED = {"fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "text-anchor"}
_RGB = re.compile(r"rgb\((\d+), ?(\d+), ?(\d+)\)")
_CELL = re.compile(r"M(?P<x>[\d.]+),(?P<y>[\d.]+)h(?P<wide>[\d.]+)v(?P<high>[\d.]+)h-[\d.]+Z")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def draw(chart: alt.LayerChart | Cast, config: dict[str, Any], *, width: int, name: str) -> ET.Element:
    """The chart as an `svg` element, `width` pixels wide with its axes; `name` begins the ids in it.

    Raises ValueError if a number in the chart is not finite.
    """
    import vl_convert

    spec = specification(chart) | {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    text = json.dumps(_writable(spec), allow_nan=False)
    written = vl_convert.vegalite_to_svg(text, vl_version=_VERSION, config=config, allowed_base_urls=[])
    svg = ET.fromstring(written)
    for element in svg.iter():
        element.tag = element.tag.removeprefix(_SVG)
    _renamed(svg, name)
    _compact(svg)
    return svg


def serialised(element: ET.Element) -> Markup:
    """The element as it stands in a page or a file."""
    return Markup(ET.tostring(element, encoding="unicode").replace(" />", "/>"))


def _writable(value: Any) -> Any:
    """The specification without characters that XML lacks: vl-convert takes the whole process down over one."""
    if isinstance(value, str):
        return xml_text(value)
    if isinstance(value, dict):
        return {key: _writable(item) for key, item in value.items()}
    return [_writable(item) for item in value] if isinstance(value, (list, tuple)) else value


def _renamed(svg: ET.Element, name: str) -> None:
    """Ids that no other picture of the page has, and that do not depend on what was drawn before."""
    names = {item.attrib["id"]: f"{name}-{place}" for place, item in enumerate(svg.iterfind(".//*[@id]"))}
    for element in svg.iter():
        if "id" in element.attrib:
            element.attrib["id"] = names[element.attrib["id"]]
        for key, value in element.attrib.items():
            element.attrib[key] = _REFERENCE.sub(lambda match: f"url(#{names.get(match[1], match[1])})", value)


def _compact(element: ET.Element) -> None:
    """Leaves the picture as it is and the element as short as it can be, from the inside out."""
    children = [child for child in element if _visible(child)]
    for child in children:
        _compact(child)
    element[:] = list(_unwrapped(children))
    element.attrib = dict(_needed(element))
    if element.tag == "g":
        _merge(element)
        _hoist(element)


def _visible(element: ET.Element) -> bool:
    """Whether the element could draw anything."""
    if element.attrib.get("display") == "none" or (element.tag == "path" and not element.attrib.get("d")):
        return False
    backdrop = element.attrib.get("class") == "background"
    return not (backdrop and element.attrib.keys().isdisjoint({"fill", "stroke"}))


def _unwrapped(children: Iterable[ET.Element]) -> Iterator[ET.Element]:
    """The children, those of a group without attributes in its place."""
    for child in children:
        if child.tag == "g" and not child.attrib:
            yield from child
        elif child.tag != "g" or len(child):
            yield child


def _needed(element: ET.Element) -> Iterator[tuple[str, str]]:
    """The attributes that change the picture, in their shortest form."""
    for key, value in element.attrib.items():
        if key in _USELESS or key.startswith("aria-"):
            continue
        text = shorter(value) if key == "d" else rounded(value) if key in _NUMERIC else value
        text = _RGB.sub(lambda match: "#" + "".join(f"{int(part):02x}" for part in match.groups()), text)
        if _DEFAULTS.get(key) != text:
            yield key, text


def _merge(group: ET.Element) -> None:
    """Writes the cells of a heatmap, if they are equally high, as broad lines: a path for each shade."""
    cells = [match for cell in group if (match := _CELL.fullmatch(cell.attrib.get("d", "")))]
    high = {cell["high"] for cell in cells}
    if not MANY <= len(cells) == len(group) or len(high) > 1 or any(cell.keys() != ["d", "fill"] for cell in group):
        return
    height = float(high.pop())
    lines: dict[str, str] = {}
    for cell, match in zip(group, cells, strict=True):
        shade, middle = _shade(cell.attrib["fill"]), rounded(str(float(match["y"]) + height / 2))
        lines[shade] = f"{lines.get(shade, '')}M{match['x']},{middle}h{match['wide']}"
    group[:] = [ET.Element("path", {"d": path, "stroke": shade}) for shade, path in lines.items()]
    group.attrib["stroke-width"] = rounded(str(height))


def _shade(fill: str) -> str:
    """The colour, with channels in steps that the eye does not tell apart."""
    if not re.fullmatch("#[0-9a-f]{6}", fill):
        return fill
    channels = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{min(255, SHADES * round(value / SHADES)):02x}" for value in channels)


def _hoist(group: ET.Element) -> None:
    """Says what all children say alike once, for the group."""
    if len(group) < 2:
        return
    said = Counter((key, value) for child in group for key, value in child.attrib.items() if key in _INHERITED)
    for (key, value), times in said.items():
        if times == len(group) and key not in group.attrib:
            group.attrib[key] = value
            for child in group:
                del child.attrib[key]
