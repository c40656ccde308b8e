"""Paths keep their course to a tenth of a pixel, whatever is said shorter."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.page.paths import rounded, shorter

Point = tuple[float, float]

PLACE = st.floats(-2000, 2000, allow_nan=False).map(lambda value: round(value, 7))


def course(path: str) -> list[Point]:
    """The corners of a path of `M`, `L` and `l`, as a program that draws it reads them."""
    corners: list[Point] = []
    for command, numbers in re.findall(r"([MLl])([^MLl]*)", path):
        values = [float(number) for number in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", numbers)]
        for x, y in zip(values[::2], values[1::2], strict=True):
            base = corners[-1] if command == "l" else (0.0, 0.0)
            corners.append((base[0] + x, base[1] + y))
    return corners


def distance(place: Point, one: Point, other: Point) -> float:
    """From a place to the line between two others."""
    (x, y), (dx, dy) = (place[0] - one[0], place[1] - one[1]), (other[0] - one[0], other[1] - one[1])
    length = dx * dx + dy * dy
    along = 0.0 if length == 0 else max(0.0, min(1.0, (x * dx + y * dy) / length))
    return float(((x - along * dx) ** 2 + (y - along * dy) ** 2) ** 0.5)


@given(st.lists(st.tuples(PLACE, PLACE | st.just(7.0)), min_size=2, max_size=12))
def test_a_line_keeps_its_course(corners: list[Point]) -> None:
    path = "M" + "L".join(f"{x!r},{y!r}" for x, y in corners)
    drawn = course(shorter(path))
    assert max(abs(a - b) for a, b in zip(drawn[0], corners[0], strict=True)) < 0.051
    assert max(abs(a - b) for a, b in zip(drawn[-1], corners[-1], strict=True)) < 0.051
    pieces = list(pairwise([*drawn, drawn[-1]]))
    assert all(min(distance(place, *piece) for piece in pieces) < 0.1 for place in corners)
    assert all(min(distance(place, *piece) for piece in pairwise(corners)) < 0.1 for place in drawn)


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("M0,168L0.5,160.25L3.5,161.25", "M0,168l.5-7.8 3,1"),
        ("M0,10L5,10L9.96,10L12,10L12,14", "M0,10l12,0 0,4"),
        ("M0,10L5,10L2,10", "M0,10l5,0-3,0"),
        ("M1,1L2,3M8,8L9,9", "M1,1l1,2M8,8l1,1"),
        ("M0,13.39h4.963636v12.2199h-4.963636Z", "M0,13.4h5v12.2h-5Z"),
        ("M1,1L1.02,1.01", "M1,1"),
        ("M46.4,0A46.4,46.4,0,1,1,-46.4,0", "M46.4,0A46.4,46.4,0,1,1,-46.4,0"),
        ("M0,0C1.55,2,3,4,5,6L7,8L9,9", "M0,0C1.6,2,3,4,5,6L7,8l2,1"),
        ("M1e-7,-0.04L2,2", "M0,0l2,2"),
    ],
)
def test_examples(long: str, short: str) -> None:
    assert shorter(long) == short


def test_numbers_are_rounded_to_a_tenth() -> None:
    assert rounded("translate(87.43169,-0.01) 1e2 .25") == "translate(87.4,0) 100 .2"
