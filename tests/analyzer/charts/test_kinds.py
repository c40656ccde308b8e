"""What the kinds of charts do with the columns that a declaration names."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from support.pages import EDGES, SHARES, full_run
from support.runs import write_run

from analyzer.charts.base import Figure, Missing
from analyzer.charts.class_heatmaps import CLASS_HEATMAPS
from analyzer.charts.entry_bins import EntryBins
from analyzer.charts.gradient_histogram import SHARDS, GradientHistogram
from analyzer.charts.gradient_parameter_histogram import GradientParameterHistogram
from analyzer.charts.heatmaps import HEATMAPS
from analyzer.charts.quantities import QUANTITIES
from analyzer.charts.sharpness import Sharpness
from analyzer.charts.step_time import StepTime
from analyzer.run import open_run


def rows(figure):
    assert isinstance(figure, Figure)
    return [row for part in figure.chart.to_dict()["datasets"].values() for row in part]


def written(path, steps, layers=None, **more):
    return open_run(write_run(path, steps, layers, **more))


def test_several_columns_are_lines_that_the_legend_names_and_a_level_says_what_it_means(tmp_path):
    figure = QUANTITIES["gradient-tests"].draw(full_run(tmp_path, 40))
    labels = [key.label for key in figure.keys]
    assert labels == ["norm", "inner product", "orthogonality", "1: as much noise as gradient"]
    assert {row["series"] for row in rows(figure) if "series" in row} == set(labels[:3])
    assert {row["level"] for row in rows(figure) if "level" in row} == {1.0}
    low, high = next(item["value"] for item in figure.chart.to_dict()["params"] if item["name"] == "values")
    assert low <= 1.0 <= high


def test_optimizers_that_take_turns_get_a_chart_each_where_there_are_several_lines(tmp_path):
    run = full_run(tmp_path, 40, optimizer=[step % 2 for step in range(40)])
    titles = [figure.title for figure in QUANTITIES["gradient-tests"].figures(run)]
    title = "Noise of the gradient: three tests"
    assert titles == [f"{title}, optimizer 0 (SGD)", f"{title}, optimizer 1"]


def test_what_stands_beside_others_is_not_drawn_alone(tmp_path):
    missing = QUANTITIES["noise-scale"].draw(written(tmp_path, {"batch_size": [64, 64]}))
    assert isinstance(missing, Missing)
    figure = QUANTITIES["noise-scale"].draw(full_run(tmp_path, 20))
    assert [key.label for key in figure.keys] == ["noise scale", "CABS", "batch size used"]


@pytest.mark.parametrize(
    ("name", "column", "dull", "telling"),
    [
        ("stale-gradients", "stale_grad_norm", [0.0, 0.0, None], [0.0, 2.0, None]),
        ("micro-batches", "micro_batches", [1, 1], [1, 4]),
        ("evaluations", "evaluations", [0, 0], [20, 20]),
        ("training-mode", "training_share", [1.0, 1.0], [1.0, 0.5]),
    ],
)
def test_what_never_differs_from_the_usual_is_a_sentence_and_no_chart(tmp_path, name, column, dull, telling):
    missing = QUANTITIES[name].draw(written(tmp_path / "dull", {"loss": 1.0, column: dull}))
    assert isinstance(missing, Missing)
    assert missing.reason == QUANTITIES[name].dull[1]
    assert isinstance(QUANTITIES[name].draw(written(tmp_path / "telling", {"loss": 1.0, column: telling})), Figure)


def test_a_nan_is_no_reason_to_call_a_quantity_dull(tmp_path):
    run = written(tmp_path, {"stale_grad_norm": [0.0, math.nan]})
    assert isinstance(QUANTITIES["stale-gradients"].draw(run), Figure)


def test_no_dead_unit_is_said_and_not_drawn(tmp_path):
    modules = {"step": [0, 1], "module": ["1", "1"], "dead_share": [0.0, 0.0]}
    missing = HEATMAPS["dead-units"].draw(written(tmp_path, {"loss": [1.0, 1.0]}, modules=modules))
    assert missing.reason == "No unit was dead on a whole batch at any probed step."


def test_a_spike_of_one_step_colours_its_cell(tmp_path):
    norms = [1.0] * 1_000
    norms[777] = 50.0
    figure = HEATMAPS["gradient-heatmap"].draw(written(tmp_path, {"loss": [1.0] * 1_000}, {"a": {"grad_norm": norms}}))
    assert [row["step"] for row in rows(figure) if row.get("value") == 50.0] == [770]


def test_a_negative_trace_is_told_from_a_trace_of_zero(tmp_path):
    layers = {"a": {"hess_trace": [-1.0, 2.0]}, "b": {"hess_trace": [0.0, 2.0]}}
    figure = HEATMAPS["trace-heatmap"].draw(written(tmp_path, {"loss": [1.0, 1.0]}, layers))
    kinds = {row["row"]: row["kind"] for row in rows(figure) if "kind" in row}
    assert kinds == {"a": "negative", "b": "exactly zero"}
    assert [key.label for key in figure.keys] == ["exactly zero", "negative"]


@pytest.mark.parametrize(
    ("kind", "options", "limit"),
    [("SGD", {}, 20.0), ("SGD", {"momentum": 0.5}, 30.0), ("Adam", {"betas": [0.9, 0.999]}, None)],
)
def test_the_limit_of_the_curvature_is_two_over_the_rate_for_sgd_alone(tmp_path, kind, options, limit):
    groups = [{"optimizer": 0, "type": kind, "lr": 0.1, "options": options}]
    steps = {"hess_max_ev": [5.0, None, 6.0], "hess_max_ev_residual": [0.5, None, math.nan], "lr": [[0.1]] * 3}
    figure = Sharpness().draw(written(tmp_path, steps, manifest={"groups": groups}))
    limits = [row["mid"] for row in rows(figure) if row.get("series", "").startswith("limit")]
    assert limits == ([] if limit is None else [pytest.approx(limit)] * 3)
    assert figure.note == "Known to within 10\u202f% (median)."


def test_the_steps_and_the_pauses_between_them_are_two_lines(tmp_path):
    steps = {"time": [0.0, 1.0, 2.0], "duration": 0.25, "probed": [True, False, False]}
    figure = StepTime().draw(written(tmp_path, steps))
    assert [key.label for key in figure.keys] == ["within the step", "until the next"]
    assert {row["mid"] for row in rows(figure) if row["series"] == "until the next"} == {750.0}


def test_shares_of_classes_and_how_many_are_recognised(tmp_path):
    steps = {"class_counts": [[2.0, 6.0], [4.0, 0.0]], "class_hits": [[1.0, 6.0], [4.0, 0.0]], "batch_size": [8, 4]}
    run = written(tmp_path, steps)
    cells = [(row["row"], row["step"], row["value"]) for row in rows(CLASS_HEATMAPS["class-balance"].draw(run))]
    assert cells == [("class 0", 0, 25), ("class 0", 1, 100), ("class 1", 0, 75), ("class 1", 1, 0)]
    cells = [(row["row"], row["step"], row["value"]) for row in rows(CLASS_HEATMAPS["class-recall"].draw(run))]
    assert cells == [("class 0", 0, 50), ("class 0", 1, 100), ("class 1", 0, 100)], "none of a class, no share of it"


def test_many_classes_share_rows(tmp_path):
    counts = [float(i) for i in range(100)]
    figure = CLASS_HEATMAPS["class-balance"].draw(written(tmp_path, {"class_counts": [counts], "batch_size": 4950}))
    labels = [row["row"] for row in rows(figure)]
    assert (labels[0], labels[-1], len(labels)) == ("classes 0 to 2", "class 99", 34)
    assert sum(row["value"] for row in rows(figure)) == pytest.approx(100, rel=1e-3)


def test_the_histogram_over_the_steps_counts_all_tensors_and_each_column_adds_up(tmp_path):
    figure = GradientHistogram().draw(full_run(tmp_path, 60))
    by_step: dict[int, dict[int, float]] = {}
    for row in rows(figure):
        by_step.setdefault(row["step"], {})[row["place"]] = row["value"]
    assert len(by_step) == 60
    assert all(sum(column.values()) == pytest.approx(100) for column in by_step.values())
    assert all(column[3] == pytest.approx(100 * SHARES[3], rel=0.1) for column in by_step.values())
    assert "beyond \u00b11 or not finite" in figure.note


def test_of_a_run_of_many_shards_some_make_a_picture_without_gaps(tmp_path):
    counts = [[0, 0, 1, 2, 1, 0, 0]] * 1000
    histograms = {"step": range(1000), "tensor": ["a"] * 1000, "counts": counts, "samples": [1] * 1000}
    steps = {"loss": [1.0] * 1000}
    run = written(tmp_path, steps, histograms=histograms, shards=3 * SHARDS, manifest={"edges": EDGES})
    figure = GradientHistogram().draw(run)
    columns = sorted({(row["step"], row["until"]) for row in rows(figure)})
    assert SHARDS / 2 < len(columns) <= 2 * SHARDS
    assert all(until == follows for (_, until), (follows, _) in pairwise(columns))
    assert (columns[0][0], columns[-1][1]) == (0, 1000)
    assert {row["place"]: row["value"] for row in rows(figure)} == {2: 25, 3: 50, 4: 25}
    assert "probes, spread over the run, were read." in figure.note


def test_the_joint_histogram_is_drawn_where_it_was_counted_first_and_last(tmp_path):
    figures = list(GradientParameterHistogram().figures(full_run(tmp_path, 60)))
    titles = [figure.title for figure in figures]
    assert titles == ["Gradient against parameter, step 0", "Gradient against parameter, step 59"]
    for figure in figures:
        assert sum(row["value"] for row in rows(figure)) == pytest.approx(100)
        cells = {(row["gradient"], row["parameter"]) for row in rows(figure)}
        assert cells == {(i, j) for i in range(3) for j in range(3)}


ODD_EDGES = ("odd", [0.0, None], [1.0, 0.0, 2.0], {"gradient": [0.0, 1.0]})


@pytest.mark.parametrize("edges", [{}, *({"gradient-histogram": odd} for odd in ODD_EDGES)])
def test_a_run_file_without_sensible_edges_leaves_the_histogram_out(tmp_path, edges):
    histograms = {"step": [0], "tensor": ["a"], "counts": [[1, 2, 3, 4, 5, 6, 7]], "samples": [1]}
    run = written(tmp_path, {"loss": [1.0]}, histograms=histograms, manifest={"edges": edges})
    assert isinstance(GradientHistogram().draw(run), Missing)


def test_counts_that_do_not_fit_the_edges_are_not_drawn(tmp_path):
    histograms = {"step": [0], "tensor": ["a"], "counts": [[1, 2, 3]], "samples": [1]}
    run = written(tmp_path, {"loss": [1.0]}, histograms=histograms, manifest={"edges": EDGES})
    assert isinstance(GradientHistogram().draw(run), Missing)


def test_ticks_of_entries_are_powers_of_ten_on_both_sides_of_zero():
    positive = [2.0**power for power in range(-24, 9)]
    bins = EntryBins((-math.inf, *(-edge for edge in reversed(positive)), *positive, math.inf))
    axis = bins.ticks(0, len(bins))
    assert axis["values"] == sorted(axis["values"])
    assert axis["tickCount"] == len(axis["values"])
    words = json.loads(axis["labelExpr"].split("]")[0] + "]")
    positive = ["1e\u22126", "1e\u22124", "0.01", "1", "100"]
    assert words == [*(f"\u2212{word}" for word in reversed(positive)), "0", *positive]
    assert axis["values"][words.index("0")] == len(bins) / 2
