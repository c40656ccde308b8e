"""A chart as the JSON that the page carries: data by column, four significant digits, safe inside a script element."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
from markupsafe import Markup

from ..charts.mold import Cast

DIGITS = 4
"""Significant digits of charted data: a pixel is coarser."""

MOST_ROWS = 20_000
"""Rows that one chart may carry; more is a defect of its binning."""

_LEFT_TO_THE_PAGE = ("$schema", "config")


def spec_json(chart: alt.LayerChart | Cast) -> Markup:
    """The chart for a `<script type="application/json">`. Raises ValueError if a number in it is not finite."""
    spec = specification(chart)
    return script_json(spec | {"datasets": {name: by_column(rows) for name, rows in spec.get("datasets", {}).items()}})


def specification(chart: alt.LayerChart | Cast) -> dict[str, Any]:
    """The chart as Vega-Lite without what all charts share."""
    with alt.data_transformers.enable("default", max_rows=MOST_ROWS):
        spec = chart.to_dict(validate=False)
    return {key: value for key, value in spec.items() if key not in _LEFT_TO_THE_PAGE}


def script_json(data: Any) -> Markup:
    """Compact JSON that cannot end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def by_column(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows as `{"n": rows, "columns": {name: values}}`; the page's script turns them back.

    Values are a list; a single value where all are equal; `{"cycle": values}` where they come again and again,
    `{"each": values, "times": n}` where each stands n times, as in a grid; `{"of": words, "at": positions}` for words,
    the positions packed in turn.
    """
    names = list(rows[0]) if rows else []
    return {"n": len(rows), "columns": {name: _packed([row[name] for row in rows]) for name in names}}


def _packed(values: list[Any]) -> Any:
    if all(isinstance(value, str) for value in values):
        words = list(dict.fromkeys(values))
        place = {word: i for i, word in enumerate(words)}
        return words[0] if len(words) == 1 else {"of": words, "at": _folded([place[value] for value in values])}
    return _folded([_short(value) for value in values])


def _folded(values: list[Any]) -> Any:
    """The values without their repetitions, if these are regular."""
    if not values or isinstance(values[0], (list, dict)):
        return values
    amount = len(values)
    run = next((i for i, value in enumerate(values) if value != values[0]), amount)
    if run == amount:
        return values[0]
    if run > 1 and amount % run == 0 and all(values[i] == values[i - i % run] for i in range(amount)):
        return {"each": values[::run], "times": run}
    turns = (i for i in range(2, amount // 2 + 1) if values[i] == values[0] and amount % i == 0)
    period = next((i for i in turns if values[:i] * (amount // i) == values), None)
    return {"cycle": values[:period]} if period else values


def _short(value: Any) -> Any:
    """A float with the digits that can be seen, as a whole number where it is one."""
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
