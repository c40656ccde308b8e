from __future__ import annotations

import json
import math

import altair as alt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.page.specs import by_column, script_json, spec_json


def layered(frame: pl.DataFrame) -> alt.LayerChart:
    return alt.layer(alt.Chart(frame).mark_line().encode(x="step:Q", y="mid:Q"))


def back(packed: dict) -> list[dict]:
    """What the page's script makes of the columns."""

    def cell(column, i):
        match column:
            case list():
                return column[i]
            case {"of": words, "at": places}:
                return words[cell(places, i)]
            case {"cycle": values}:
                return values[i % len(values)]
            case {"each": values, "times": times}:
                return values[i // times]
        return column

    return [{name: cell(column, i) for name, column in packed["columns"].items()} for i in range(packed["n"])]


@given(
    st.lists(
        st.fixed_dictionaries(
            {"step": st.integers(0, 10**9), "name": st.text(max_size=3), "mid": st.none() | st.integers(-999, 999)}
        ),
        max_size=20,
    )
)
def test_columns_hold_what_the_rows_held(rows):
    assert back(json.loads(script_json(by_column(rows)))) == rows


def test_a_grid_is_written_without_its_repetitions():
    rows = [{"row": row, "step": step, "value": row * step} for row in (3, 5, 7) for step in (0, 10, 20, 30)]
    columns = by_column(rows)["columns"]
    assert columns["row"] == {"each": [3, 5, 7], "times": 4}
    assert columns["step"] == {"cycle": [0, 10, 20, 30]}
    assert len(columns["value"]) == 12
    assert back(by_column(rows)) == rows


def test_numbers_keep_four_digits_and_repeated_words_are_written_once():
    packed = by_column([{"a": 1 / 3, "b": "long name", "c": 5.0}, {"a": 123456.0, "b": "other", "c": 5.0}])
    assert packed["columns"] == {"a": [0.3333, 123500], "b": {"of": ["long name", "other"], "at": [0, 1]}, "c": 5}


def test_a_number_that_is_not_finite_is_an_error_here_and_not_in_the_browser():
    frame = pl.DataFrame({"step": [0, 1], "mid": [1.0, 2.0]})
    chart = layered(frame).properties(usermeta={"x": math.inf})
    with pytest.raises(ValueError, match="JSON compliant"):
        spec_json(chart)


def test_nothing_in_the_json_can_end_the_script_element():
    text = str(script_json({"name": "</script><!--<script>&"}))
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"name": "</script><!--<script>&"}


def test_the_page_keeps_schema_and_theme_to_itself():
    spec = json.loads(spec_json(layered(pl.DataFrame({"step": [0, 1], "mid": [1.0, 2.5]}))))
    assert not {"$schema", "config"} & spec.keys()
    assert list(spec["datasets"].values()) == [{"n": 2, "columns": {"step": [0, 1], "mid": [1, 2.5]}}]


def test_a_chart_whose_binning_failed_is_refused():
    with pytest.raises(alt.MaxRowsError):
        spec_json(layered(pl.DataFrame({"step": range(20_001), "mid": 1.0})))
