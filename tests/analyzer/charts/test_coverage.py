"""Every recorded column has its picture, or a reason why it has none."""

from __future__ import annotations

import pytest

from analyzer import derived
from analyzer.charts import CHARTS
from analyzer.charts.tensor_history import SERIES
from recorder import schema

WITHOUT_A_PICTURE = {
    "steps.step": "the axis of all charts",
    "steps.optimizer": "lines and charts of their own",
    "steps.probed": "the note of the step time",
    "steps.skipped": "audits, and events",
    "steps.end_slope_total": "checks alpha",
    "steps.slope_count": "checks alpha",
    "steps.input_spread": "audits",
    "steps.input_nonfinite": "audits",
    "steps.mixing_share": "audits: it is measured once",
    "steps.sequence_here": "audits: it is measured twice",
    "steps.sequence_next": "audits",
    "steps.sequence_later": "audits",
    "steps.sequence_mixing": "audits",
    "steps.copied_samples": "evidence of the rule on answers that are given",
    "steps.copied_share": "audits: the last value counts",
    "steps.copied_feature": "evidence of the rule on answers that are given",
    "steps.prediction_sum_min": "audits",
    "steps.prediction_sum_max": "audits",
    "layers.step": "the axis",
    "layers.tensor": "the rows",
    "layers.grad_norm_clipped": "of all tensors together: clipping",
    "layers.grad_var": "of all tensors together: the gradient tests",
    "layers.grad_square": "of all tensors together: TIC",
    "layers.ggn_trace": "of all tensors together: traces",
    "layers.tic_sum": "of all tensors together: TIC",
    "layers.tic_count": "of all tensors together: TIC",
    "layers.mean_row_norm": "evidence of the rule on symmetric starts",
    "modules.step": "the axis",
    "modules.module": "the rows",
    "modules.training": "of all modules together: training mode",
    "modules.unit_count": "the size behind a share",
    "modules.normalized_over": "audits",
    "histograms.step": "the axis",
    "histograms.tensor": "all tensors together",
    "histograms.samples": "how many gradients were counted",
}


def pictured() -> set[str]:
    shown = {column for chart in CHARTS for column in chart.shows} | {f"layers.{column}" for column in SERIES}
    recorded = set()
    for name in shown - {"metrics.loss", "metrics.value"}:
        table, _, column = name.partition(".")
        recorded |= {f"{table}.{part}" for part in derived.ingredients(table, column)}
    return recorded


def test_every_column_is_pictured_or_it_is_said_why_not():
    tables = (schema.STEPS, schema.LAYERS, schema.MODULES, schema.HISTOGRAMS)
    everything = {f"{table.name}.{column}" for table in tables for column in table.columns}
    assert everything - pictured() == set(WITHOUT_A_PICTURE)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_charts_show_columns_that_exist(chart):
    for name in set(chart.shows) - {"metrics.loss", "metrics.value"}:
        table, _, column = name.partition(".")
        assert derived.column(table, column)


def test_names_are_unique():
    names = [chart.name for chart in CHARTS]
    assert len(set(names)) == len(names)
