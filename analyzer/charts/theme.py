"""The look of the charts: colours as CSS variables of the page, and one Vega-Lite configuration that all of them share.

The page switches the variables between light, dark and print, so no chart is embedded twice. The SVG renderer takes
`var(...)` as a colour; for a canvas the page's script replaces it by its value first.
"""

from __future__ import annotations

from typing import Any

from ..wording import THIN

INK = "var(--ink)"
MUTED = "var(--muted)"
GRID = "var(--grid)"
ALARM = "var(--error)"
PANEL = "var(--panel)"
ZERO = "var(--zero)"

SERIES = (
    "var(--series-1)",
    "var(--series-2)",
    "var(--series-3)",
    "var(--series-4)",
    "var(--series-5)",
    "var(--series-6)",
)
"""Colours of nominal series, told apart by the colour-blind too (Okabe and Ito's hues, adjusted for contrast)."""

DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2), (8, 3, 2, 3), (4, 1), (1, 3))
"""Line styles beside the colours, so that colour is never the only difference."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

HEIGHT = 168
"""Height of an ordinary chart, in pixels."""

CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": FONT,
    "padding": {"left": 0, "top": 4, "right": 12, "bottom": 4},
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": 400,
        "titlePadding": 6,
        "gridColor": GRID,
        "gridWidth": 1,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelPadding": 4,
    },
    "axisX": {"grid": False, "tickCount": 6, "labelFlush": True, "labelOverlap": True, "titleAnchor": "end"},
    "axisXQuantitative": {"format": ",~r"},
    "axisY": {
        "domain": False,
        "ticks": False,
        "tickCount": 5,
        "minExtent": 46,
        "labelOverlap": True,
        "titleAngle": 0,
        "titleAnchor": "end",
        "titleAlign": "left",
        "titleBaseline": "bottom",
        "titleX": -46,
        "titleY": -6,
    },
    "legend": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": 400,
    },
    "line": {"strokeWidth": 1.5, "strokeJoin": "round"},
    "range": {"category": list(SERIES)},
    "locale": {"number": {"decimal": ".", "thousands": THIN, "grouping": [3], "currency": ["", ""], "minus": "\u2212"}},
}
"""Given to every chart by the page; a chart itself only says what it shows."""
