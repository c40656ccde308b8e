"""A chart as the JSON that the page carries: data by column, four significant digits, safe inside a script element."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
from markupsafe import Markup

DIGITS = 4
"""Significant digits of charted data: a pixel is coarser."""

MOST_ROWS = 20_000
"""Rows that one chart may carry; more is a defect of its binning."""

_LEFT_TO_THE_PAGE = ("$schema", "config")


def spec_json(chart: alt.LayerChart) -> Markup:
    """The chart for a `<script type="application/json">`. Raises ValueError if a number in it is not finite."""
    with alt.data_transformers.enable("default", max_rows=MOST_ROWS):
        spec = chart.to_dict(validate=False)
    kept = {key: value for key, value in spec.items() if key not in _LEFT_TO_THE_PAGE}
    kept["datasets"] = {name: by_column(rows) for name, rows in spec.get("datasets", {}).items()}
    return script_json(kept)


def script_json(data: Any) -> Markup:
    """Compact JSON that cannot end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def by_column(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows as `{"n": rows, "columns": {name: values}}`; the page's script turns them back.

    Values are a list; a single value where all are equal; for repeated words `{"of": words, "at": positions}`.
    """
    names = list(rows[0]) if rows else []
    return {"n": len(rows), "columns": {name: _packed([row[name] for row in rows]) for name in names}}


def _packed(values: list[Any]) -> Any:
    if all(isinstance(value, str) for value in values):
        words = list(dict.fromkeys(values))
        place = {word: i for i, word in enumerate(words)}
        return words[0] if len(words) == 1 else {"of": words, "at": [place[value] for value in values]}
    short = [_short(value) for value in values]
    same = all(value == short[0] for value in short)
    return short[0] if same and not isinstance(short[0], (list, dict)) else short


def _short(value: Any) -> Any:
    """A float with the digits that can be seen, as a whole number where it is one."""
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
