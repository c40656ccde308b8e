from __future__ import annotations

import json
from typing import Any

import pytest
from support.pages import TENSORS, finding, full_run, hostile_finding, hostile_run, nan_run

from analyzer.charts.base import Figure, Missing
from analyzer.charts.evidence import draw_evidence
from analyzer.findings import ChartRef


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return full_run(tmp_path_factory.mktemp("evidence"), 5_000)


def drawn(run: Any, **changes: Any) -> Figure:
    figure = draw_evidence(run, finding(**changes))
    assert isinstance(figure, Figure)
    json.dumps(figure.chart.to_dict(), allow_nan=False)
    return figure


def layers(figure: Figure, kind: str) -> list[dict[str, Any]]:
    return [layer for layer in figure.chart.to_dict()["layer"] if layer["mark"]["type"] == kind]


def values(figure: Figure, layer: dict[str, Any]) -> list[dict[str, Any]]:
    spec = figure.chart.to_dict()
    return spec["datasets"][layer.get("data", spec.get("data"))["name"]]


def test_the_threshold_is_a_line_with_its_number(run):
    figure = drawn(run, chart=ChartRef("steps", "grad_norm", (), 2.5))
    texts = [row["label"] for layer in layers(figure, "text") for row in values(figure, layer)]
    assert set(texts) == {"threshold 2.5"}
    assert "threshold 2.5" in figure.description
    assert "Dashed: the threshold, 2.5." in figure.reading


def test_without_a_reference_there_is_no_line(run):
    figure = drawn(run, chart=ChartRef("steps", "loss"))
    assert layers(figure, "text") == []
    assert "threshold" not in figure.reading.lower()


def test_the_steps_at_which_the_rule_fired_are_shaded_and_said(run):
    figure = drawn(run, first_step=1_000, last_step=1_100)
    (shade,) = layers(figure, "rect")
    assert {(row["step"], row["until"]) for row in values(figure, shade)} == {(1_000, 1_100)}
    assert "rule fired, steps 1" in figure.keys[-1].label


def test_the_chart_zooms_to_a_short_span_and_shows_every_step_there(run):
    figure = drawn(run, first_step=5, last_step=24, chart=ChartRef("steps", "loss"))
    (line,) = layers(figure, "line")
    assert {item["name"]: item["value"] for item in figure.chart.to_dict()["params"]}["steps"] == [0, 74]
    assert [row["step"] for row in values(figure, line)] == list(range(75))


def test_a_span_as_long_as_the_run_is_not_shaded(run):
    figure = drawn(run, first_step=0, last_step=4_999)
    assert layers(figure, "rect") == []
    assert "fired at all of them" in figure.reading


def test_a_finding_about_tensors_draws_them_as_series(run):
    figure = drawn(run, chart=ChartRef("layers", "grad_norm", ("2.weight", "0.weight")))
    assert [key.label for key in figure.keys][:2] == ["2.weight", "0.weight"]


def test_tensors_come_from_the_finding_where_the_reference_names_none(run):
    figure = drawn(run, chart=ChartRef("layers", "update_ratio"), tensors=("0.bias",))
    assert [row[0] for row in figure.numbers.rows] == ["0.bias"]


def test_of_many_tensors_a_choice_from_first_to_last_is_drawn(tmp_path):
    names = [f"{i}.weight" for i in range(40)]
    run = full_run(tmp_path, 20, names)
    figure = drawn(run, chart=ChartRef("layers", "grad_norm"), tensors=tuple(names))
    labels = [key.label for key in figure.keys][:5]
    assert (labels[0], labels[-1]) == ("0.weight", "39.weight")
    assert figure.note == "5 of 40 are drawn."


@pytest.mark.parametrize(
    "ref",
    [
        ChartRef("steps", "alpha", (), 1.0),
        ChartRef("steps", "lr", (), 0.05),
        ChartRef("steps", "probed"),
        ChartRef("steps", "alpha_concave"),
        ChartRef("metrics", "accuracy"),
        ChartRef("layers", "grad_ratio", TENSORS, 1e-3),
    ],
    ids=lambda ref: f"{ref.table}.{ref.column}",
)
def test_every_kind_of_column_can_be_evidence(run, ref):
    assert drawn(run, chart=ref).title


@pytest.mark.parametrize("ref", [ChartRef("steps", "no_such"), ChartRef("no_such", "loss"), ChartRef("events", "time")])
def test_a_reference_that_leads_nowhere_says_so(run, ref):
    figure = draw_evidence(run, finding(chart=ref))
    assert isinstance(figure, Missing)
    assert figure.reason.endswith(".")


def test_a_finding_without_a_reference_has_no_chart(run):
    assert draw_evidence(run, finding(chart=None)) is None


def test_a_run_of_nan_and_hostile_names_can_be_evidence(tmp_path):
    assert "not finite" in drawn(nan_run(tmp_path), chart=ChartRef("steps", "loss", (), 1.0)).description
    hostile = hostile_finding()
    assert isinstance(draw_evidence(hostile_run(tmp_path), hostile), Figure)
