from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import altair as alt
import pytest
from support.pages import bare_run, full_run, hostile_run, nan_run, one_step_run

from analyzer.charts import CHARTS
from analyzer.charts.base import Figure, Missing
from analyzer.charts.tensor_history import MOST, TensorHistory

RUNS = {"full": full_run, "nan": nan_run, "one-step": one_step_run, "bare": bare_run, "hostile": hostile_run}


@pytest.fixture(scope="module", params=RUNS)
def run(request, tmp_path_factory):
    return RUNS[request.param](tmp_path_factory.mktemp(request.param))


EVENTFUL = {"stale_grad_norm": 0.5, "micro_batches": 2, "evaluations": 3, "loss_scale": 1024.0, "training_share": 0.5}
"""What is not worth a chart unless it differs from the usual."""


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return full_run(tmp_path_factory.mktemp("full"), **EVENTFUL)


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers_in(item)
    elif isinstance(value, float):
        yield value


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_chart_is_valid_finite_and_described_or_says_why_it_is_missing(chart, run):
    with alt.data_transformers.enable("default", max_rows=20_000):
        for figure in chart.figures(run):
            if isinstance(figure, Missing):
                assert figure.title
                assert figure.reason.endswith((".", ")."))
                continue
            spec = figure.chart.to_dict()  # validates against the schema of Vega-Lite
            json.dumps(spec, allow_nan=False)
            assert all(math.isfinite(number) for number in numbers_in(spec))
            assert spec["description"] == figure.description
            assert any(character.isdigit() for character in figure.description)
            assert figure.reading or isinstance(chart, TensorHistory)
            assert all(layer["mark"].get("aria") is False for layer in spec["layer"])


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_chart_draws_a_run_that_has_everything(chart, full):
    assert all(isinstance(figure, Figure) for figure in chart.figures(full))
    assert isinstance(chart.draw(full), Figure)


@pytest.mark.parametrize("chart", [c for c in CHARTS if c.name != "loss"], ids=lambda chart: chart.name)
def test_a_run_without_the_measurements_gets_a_reason_instead_of_an_empty_chart(chart, tmp_path):
    assert isinstance(chart.draw(bare_run(tmp_path)), Missing)


def rows(figure: Figure) -> dict[str, list[dict[str, Any]]]:
    with alt.data_transformers.enable("default", max_rows=20_000):
        return figure.chart.to_dict()["datasets"]


def chart_named(name: str) -> Any:
    return next(chart for chart in CHARTS if chart.name == name)


def test_charts_do_not_grow_with_the_number_of_steps(tmp_path):
    sizes = []
    for steps in (10_000, 100_000):
        run = full_run(tmp_path, steps, every=16, name=str(steps), **EVENTFUL)
        sizes.append(sum(len(json.dumps(rows(f))) for c in CHARTS for f in c.figures(run)))
    assert sizes[1] < 1.1 * sizes[0]


def test_a_spike_of_one_step_in_many_is_still_in_the_chart(tmp_path):
    loss = [1.0] * 20_000
    loss[12_345] = 77.0
    run = full_run(tmp_path, 20_000, every=100, loss=loss)
    assert 77.0 in {row["hi"] for part in rows(chart_named("loss").draw(run)).values() for row in part if "hi" in row}


def test_concave_steps_are_marked_and_never_averaged_as_minus_one(tmp_path):
    steps = 40
    # The slope gets steeper along each step, and the losses agree: no parabola with a minimum passes through.
    run = full_run(
        tmp_path,
        steps,
        loss=[10.0 - 1.5 * s for s in range(steps)],
        start_slope=-1.0,
        end_slope=-2.0,
        start_slope_var=1e-6,
        end_slope_var=1e-6,
        loss_var=1e-6,
    )
    assert run.frame("steps", "alpha_concave")["alpha_concave"].sum() == steps - 1
    figure = chart_named("alpha").draw(run)
    assert [key.label for key in figure.keys] == [
        "\u22121 no step, 0 minimum, 1 far side",
        "concave: no minimum, no alpha",
    ]
    assert not [layer for layer in figure.chart.to_dict()["layer"] if layer["mark"].get("type") == "text"], "on a curve"
    assert not any("mid" in row for part in rows(figure).values() for row in part)
    assert isinstance(chart_named("alpha-distribution").draw(run), Missing)
    assert figure.numbers.rows[0][-1].startswith("100")


def test_alpha_beyond_the_axis_is_drawn_on_its_edge_and_counted(tmp_path):
    run = full_run(tmp_path, 20, start_slope=-1e-3, end_slope=1.0, loss=1.0, loss_var=1e9, start_slope_var=0.0)
    assert (run.frame("steps", "alpha")["alpha"].drop_nulls() > 100).all()
    figure = chart_named("alpha").draw(run)
    assert figure.note.startswith("100")
    shares = [row for part in rows(chart_named("alpha-distribution").draw(run)).values() for row in part]
    assert max(row.get("share", 0) for row in shares) == pytest.approx(100)


def test_groups_that_share_a_rate_share_a_line(tmp_path):
    run = full_run(tmp_path, 30, lr=[[0.1, 0.1, 0.01, 0.1]] * 30)
    assert [key.label for key in chart_named("learning-rate").draw(run).keys] == ["groups 0, 1 and 3 (SGD)", "group 2"]


def test_only_so_many_groups_are_drawn_and_the_rest_is_mentioned(tmp_path):
    run = full_run(tmp_path, 10, lr=[[0.1 / (i + 1) for i in range(9)]] * 10)
    figure = chart_named("learning-rate").draw(run)
    assert len(figure.keys) == 6
    assert figure.note == "3 more groups are not drawn."


def test_the_loss_of_other_splits_stands_beside_the_training_loss(full):
    assert [key.label for key in chart_named("loss").draw(full).keys] == ["each step's batch", "train", "valid"]
    assert [figure.title for figure in chart_named("metrics").figures(full)] == ["accuracy (train, valid)"]


def test_optimizers_that_take_turns_have_lines_of_their_own(tmp_path):
    turns = [s % 2 for s in range(20)]
    run = full_run(tmp_path, 20, optimizer=turns, grad_norm=[1.0 + 99 * turn for turn in turns])
    figure = chart_named("gradient-norm").draw(run)
    assert [row[0] for row in figure.numbers.rows] == ["optimizer 0 (SGD)", "optimizer 1"]
    assert [row[1] for row in figure.numbers.rows] == ["1", "100"]
    assert "optimizer 1" in [key.label for key in chart_named("loss").draw(run).keys]


@pytest.mark.parametrize("value", [0.0, 64.0, -3.0, 1e-300])
def test_a_constant_is_a_line_within_its_axis(tmp_path, value):
    figure = chart_named("gradient-norm").draw(full_run(tmp_path, 5, grad_norm=value))
    (domain,) = [item["value"] for item in figure.chart.to_dict()["params"] if item["name"] == "values"]
    low, high = domain
    assert low <= value < high


def test_no_clipping_is_said_not_drawn(tmp_path):
    run = full_run(tmp_path, 10, grad_norm_clipped=None)
    assert "no clipping" in chart_named("clipping").draw(run).reason


def test_values_that_are_not_finite_have_marks_and_a_column_in_the_table(tmp_path):
    run = full_run(tmp_path, 6, grad_norm=[1.0, 2.0, math.nan, math.inf, 1.0, math.nan])
    figure = chart_named("gradient-norm").draw(run)
    assert "not finite" in [key.label for key in figure.keys]
    assert figure.numbers.header[-1] == "not finite"
    assert figure.numbers.rows[0][-1] == "3 steps"
    assert "not finite at 3 steps from step 2" in figure.description
    stretches = [row for part in rows(figure).values() for row in part if "until" in row]
    assert stretches == [{"step": 2, "until": 3}, {"step": 5, "until": 5}]


def test_a_reason_comes_from_the_recording_where_it_says_one(tmp_path):
    from support.runs import write_run

    from analyzer.run import open_run

    path = write_run(
        tmp_path / "compiled",
        {"loss": [1.0, 0.5]},
        events=[{"kind": "not-measured", "detail": {"columns": ["steps.update_norm"], "reason": "compiled"}}],
    )
    assert chart_named("update-size").draw(open_run(path)).reason == "Not measured: compiled."


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return full_run(tmp_path_factory.mktemp("large"), 12, [f"layers.{i}.weight" for i in range(2_000)])


def test_two_thousand_tensors_share_the_rows_of_the_heatmap(large):
    figure = chart_named("gradient-heatmap").draw(large)
    tensors = {row["row"] for part in rows(figure).values() for row in part}
    assert len(tensors) == 80
    assert "layers.0.weight +24" in tensors
    assert "25 tensors" in figure.note
    assert figure.renderer == "canvas"


def test_of_many_tensors_those_that_findings_name_are_drawn_in_any_case(large):
    named = ("layers.3.weight", "layers.1777.weight")
    titles = [figure.title for figure in TensorHistory(named).figures(large)]
    assert len(titles) == MOST
    assert set(named) < set(titles)
    assert titles == sorted(titles, key=lambda title: int(title.split(".")[1]))


def test_a_heatmap_shows_zeros_and_bad_values_apart_from_the_colour_scale(tmp_path):
    from support.runs import write_run

    from analyzer.run import open_run

    layers = {"0.weight": {"grad_norm": [1.0, 0.0, math.nan], "param_norm": 1.0}}
    run = open_run(write_run(tmp_path / "odd", {"loss": [1.0, 1.0, 1.0]}, layers))
    figure = chart_named("gradient-heatmap").draw(run)
    every = [row for part in rows(figure).values() for row in part]
    assert [row["value"] for row in every if "value" in row] == [1.0, None, None]
    assert [(row["step"], row["kind"]) for row in every if "kind" in row] == [(1, "exactly zero"), (2, "not finite")]
    assert [key.label for key in figure.keys] == ["exactly zero", "not finite"]


def test_the_cells_of_a_sparse_heatmap_reach_to_the_next_probe_but_not_over_a_gap(tmp_path):
    from support.runs import write_run

    from analyzer.run import open_run

    steps = [0, 16, 32, 48, 400]
    layers = {"0.weight": {"step": steps, "grad_norm": [1.0] * 5, "param_norm": 1.0}}
    run = open_run(write_run(tmp_path / "gap", {"step": range(401), "loss": 1.0}, layers))
    cells = [row for part in rows(chart_named("gradient-heatmap").draw(run)).values() for row in part]
    assert [(row["step"], row["until"]) for row in cells][:3] == [(0, 15), (15, 30), (30, 45)]
    assert cells[3]["until"] < 400
