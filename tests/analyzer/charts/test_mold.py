"""A chart that is cast is the one that would have been drawn."""

from __future__ import annotations

import json
import re
from typing import Any

import altair as alt
import polars as pl
import pytest
from support.runs import write_run

from analyzer.charts.binning import Span, bands
from analyzer.charts.marks import Axes, fit_domain, line_data, line_layers, over, shown_at_first
from analyzer.charts.mold import Cast, Mold
from analyzer.charts.tensor_history import TensorHistory
from analyzer.page.specs import spec_json, specification
from analyzer.run import open_run

SPAN = Span(0, 199)
SERIES = ("one", "two")


def binned(level: float, spread: float) -> pl.DataFrame:
    step = pl.Series("step", range(200))
    parts = [
        pl.DataFrame({"step": step, "series": name, "value": level * (i + 1) + spread * (step % 3)})
        for i, name in enumerate(SERIES)
    ]
    return bands(pl.concat(parts), "value", SPAN, by=("series",), bins=20, positive=True)


def axes(frame: pl.DataFrame) -> Axes:
    return Axes(span=SPAN, title="", domain=fit_domain(frame, log=True), log=True, height=80)


def drawn(frame: pl.DataFrame) -> alt.LayerChart:
    layers = line_layers(frame, axes(frame), SERIES, width=SPAN.width(20))
    return over(SPAN, layers, 80, f"up to {frame['hi'].max()}", **axes(frame).parameters())


def cast(mold: alt.LayerChart, frame: pl.DataFrame) -> Cast:
    parameters = shown_at_first(SPAN, axes(frame).parameters())
    return Cast(Mold(mold), line_data(frame, SERIES), parameters, f"up to {frame['hi'].max()}")


def without_names_of_data(spec: dict[str, Any]) -> Any:
    return json.loads(re.sub(r"data-[0-9a-f]+", "data", json.dumps(spec)))


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_a_cast_is_the_chart_that_would_have_been_drawn(spread: float) -> None:
    first, second = binned(1.0, spread), binned(300.0, 5 * spread)
    chart, told = cast(drawn(first), second), drawn(second)
    assert without_names_of_data(specification(chart)) == without_names_of_data(specification(told))
    assert chart["height"] == told["height"] == 80
    assert chart.to_dict() == {**chart.to_dict(validate=False)}
    assert spec_json(chart) != spec_json(drawn(first))


def test_tensors_with_odd_values_are_drawn_by_themselves(tmp_path) -> None:
    sound = [1.0 + step % 3 for step in range(200)]
    odd = [float("nan") if 50 <= step < 60 else value for step, value in enumerate(sound)]
    layers = {name: {"grad_norm": odd if name == "c" else sound, "param_norm": sound} for name in "abcd"}
    run = open_run(write_run(tmp_path, {"loss": [1.0] * 200}, layers))
    figures = {figure.title: figure for figure in TensorHistory().figures(run)}
    assert [isinstance(figures[name].chart, Cast) for name in "abcd"] == [False, True, False, True]
    marks = {name: [layer["mark"]["type"] for layer in figures[name].chart.to_dict()["layer"]] for name in "acd"}
    assert marks["a"] == marks["d"] != marks["c"]
    assert "rule" in marks["c"]
