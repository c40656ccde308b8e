"""Whatever a run holds, no rule crashes on it."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.runs import write_run
from support.synthetic import leaf, loss_input, wiring

from analyzer.config import Settings, choose
from analyzer.detectors import DETECTORS
from analyzer.engine import judge_run
from analyzer.run import open_run
from recorder import schema

ODD = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 1e300, 1.0, 2.5]
NAMES = [f"{layer}.weight" for layer in range(4)]


def failures(path: Path, steps: dict[str, Any], layers: dict[str, Any], *, known: bool = True) -> list[str]:
    events = (wiring([leaf(name) for name in NAMES]), loss_input()) if known else ()
    run = open_run(write_run(path, steps, layers, events=events))
    states = judge_run(run, choose(DETECTORS, Settings())).detectors
    return [f"{state.code}: {state.reason}" for state in states if state.state == "failed"]


def numeric(table: schema.Table) -> list[str]:
    return [name for name, column in table.columns.items() if column.dtype.startswith("float")]


def columns(table: schema.Table, rows: int, value: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    series = st.lists(value, min_size=rows, max_size=rows)
    return st.fixed_dictionaries({}, optional=dict.fromkeys(numeric(table), series))


@st.composite
def odd_runs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    rows = draw(st.sampled_from([1, 2, 3, 12, 130]))
    value = st.sampled_from([None, *ODD]) if draw(st.booleans()) else st.sampled_from([1.0, 2.0, None])
    steps = draw(columns(schema.STEPS, rows, value)) | {"lr": [[draw(value)] for _ in range(rows)]}
    layers = {name: draw(columns(schema.LAYERS, rows, value)) | {"step": list(range(rows))} for name in NAMES}
    return steps | {"step": list(range(rows))}, layers


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(run=odd_runs(), known=st.booleans())
def test_odd_values(run: tuple[dict[str, Any], dict[str, Any]], *, known: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert failures(Path(folder) / "run", *run, known=known) == []


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("rows", [1, 200])
def test_one_value_everywhere(tmp_path: Path, value: float, rows: int) -> None:
    steps: dict[str, Any] = dict.fromkeys(numeric(schema.STEPS), [value] * rows) | {"lr": [[value]] * rows}
    layers = {name: dict.fromkeys(numeric(schema.LAYERS), [value] * rows) for name in NAMES}
    assert failures(tmp_path, steps, layers) == []


def test_no_step_at_all(tmp_path: Path) -> None:
    assert failures(tmp_path, {}, {}) == []


def test_a_model_without_parameters(tmp_path: Path) -> None:
    assert failures(tmp_path, {"loss": [1.0] * 200, "lr": [[]] * 200}, {}) == []
