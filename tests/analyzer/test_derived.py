"""Derived columns against values computed another way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from support.runs import arrow_table, write_run

from analyzer import derived
from analyzer.run import open_run
from analyzer.shards import polars_schema
from recorder import schema

REFERENCE = sorted((Path(__file__).parents[1] / "data" / "cockpit-values").glob("*.json"))


def fit_rows(fit: dict[str, Any], **overrides: Any) -> dict[str, list[Any]]:
    """The two rows of `steps` that hold the ingredients of a fit; slopes there are g.d, t times those of the fit."""
    t = fit["t"]
    rows: dict[str, list[Any]] = {
        "loss": fit["f"],
        "loss_var": fit["var_f"],
        "start_slope": [fit["df"][0] * t, None],
        "start_slope_var": [fit["var_df"][0] * t**2, None],
        "end_slope": [None, fit["df"][1] * t],
        "end_slope_var": [None, fit["var_df"][1] * t**2],
        "update_norm": [t, None],
    }
    return rows | overrides


def steps_frame(rows: dict[str, list[Any]]) -> pl.DataFrame:
    """alpha and alpha_concave of these rows of `steps`."""
    table = arrow_table("steps", {"step": range(len(rows["loss"])), **rows})
    frame = pl.concat([pl.DataFrame(schema=polars_schema(schema.STEPS)), pl.from_arrow(table)], how="diagonal")
    return derived.with_derived("steps", frame.lazy()).select("alpha", "alpha_concave").collect()


def alpha_of(rows: dict[str, list[Any]]) -> tuple[float | None, bool | None]:
    """alpha and alpha_concave of the first row."""
    alpha, concave = steps_frame(rows).row(0)
    return alpha, concave


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.stem)
def test_alpha_equals_the_reference(path: Path) -> None:
    data = json.loads(path.read_text())
    for step, fit in enumerate(data["alpha_fit_per_step"]):
        alpha, concave = alpha_of(fit_rows(fit))
        expected = data["values_per_step"][str(step)]["Alpha"]
        if fit["mu"][2] < 0:
            assert expected == -1
            assert (alpha, concave) == (None, True)
        else:
            assert concave is False
            assert alpha == pytest.approx(expected, rel=1e-10)


def test_the_reference_has_concave_and_convex_fits() -> None:
    curvatures = [fit["mu"][2] for path in REFERENCE for fit in json.loads(path.read_text())["alpha_fit_per_step"]]
    assert len(REFERENCE) == 9
    assert min(curvatures) < 0 < max(curvatures)


def test_alpha_is_the_weighted_least_squares_fit() -> None:
    random = np.random.default_rng(0)
    length = random.lognormal(0, 2, 500)
    values = random.normal(size=(500, 4))
    variances = random.lognormal(0, 2, (500, 4))
    rows: dict[str, list[Any]] = {}
    for t, y, v in zip(length, values, variances, strict=True):
        fit = {"t": t, "f": y[:2], "df": y[2:], "var_f": v[:2], "var_df": v[2:]}
        for name, pair in fit_rows(fit).items():
            rows.setdefault(name, []).extend(pair)
    frame = steps_frame(rows).gather_every(2)
    for t, y, v, (alpha, concave) in zip(length, values, variances, frame.rows(), strict=True):
        design = np.array([[1, 0, 0], [1, t, t * t], [0, 1, 0], [0, 1, 2 * t]])
        _, slope, curvature = np.linalg.lstsq(design / np.sqrt(v)[:, None], y / np.sqrt(v))[0]
        assert concave is bool(curvature < 0)
        expected = None if curvature < 0 else pytest.approx(-2 * t * curvature / slope - 1, rel=1e-6)
        assert alpha == expected


PARABOLA = {"t": 2.0, "f": [1.0, 1.0], "df": [-1.0, 1.0], "var_f": [0.5, 0.5], "var_df": [0.5, 0.5]}
"""f(x) = 1 - x + x^2 / 2: the step of length 2 ends at the mirror point, alpha 1."""


def test_alpha_at_the_mirror_point_is_one() -> None:
    assert alpha_of(fit_rows(PARABOLA)) == (pytest.approx(1), False)


@pytest.mark.parametrize("zero", [("var_f",), ("var_df",), ("var_f", "var_df")])
def test_exact_measurements_keep_their_weight(zero: tuple[str, ...]) -> None:
    fit = PARABOLA | {name: [0.0, 0.0] for name in zero}
    assert alpha_of(fit_rows(fit)) == (pytest.approx(1), False)


def test_an_exact_slope_is_not_adjusted() -> None:
    fit = PARABOLA | {"f": [1.0, 0.5], "var_df": [0.0, 0.0]}
    assert alpha_of(fit_rows(fit)) == (pytest.approx(1), False)


def test_exact_measurements_of_no_parabola_have_no_fit() -> None:
    fit = PARABOLA | {"f": [1.0, 0.5], "var_f": [0.0, 0.0], "var_df": [0.0, 0.0]}
    assert alpha_of(fit_rows(fit)) == (None, None)


def test_a_step_of_length_zero_has_no_alpha() -> None:
    rows = fit_rows(PARABOLA | {"t": 0.0})
    assert alpha_of(rows) == (None, None)


@pytest.mark.parametrize("name", ["loss", "loss_var", "start_slope", "start_slope_var"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_a_missing_ingredient_means_no_alpha(name: str, value: float | None) -> None:
    assert alpha_of(fit_rows(PARABOLA, **{name: [value, 0.5]})) == (None, None)


def test_a_missing_step_in_between_means_no_alpha() -> None:
    assert alpha_of(fit_rows(PARABOLA, step=[0, 2])) == (None, None)


def test_a_step_of_another_optimizer_in_between_means_no_alpha() -> None:
    assert alpha_of(fit_rows(PARABOLA, optimizer=[0, 1])) == (None, None)
    assert alpha_of(fit_rows(PARABOLA, optimizer=[1, 1])) == (pytest.approx(1), False)


def test_other_derived_columns(tmp_path: Path) -> None:
    steps = {
        "loss": [1.0, 1.0, 1.0],
        "lr": [[0.1, 0.3], [], None],
        "loss_var": [4.0, 4.0, None],
        "loss_count": [16, 0, 8],
    }
    layers = {
        "a": {"param_norm": [2.0, 0.0, math.nan], "update_norm": [1.0, 1.0, 1.0], "grad_norm": [4.0, 4.0, None]},
    }
    run = open_run(write_run(tmp_path, steps, layers))
    assert run.frame("steps", "lr_max", "loss_se").rows() == [(0, 0.3, 0.5), (1, None, None), (2, None, None)]
    rows = run.frame("layers", "update_ratio", "grad_ratio").rows()
    assert rows[:2] == [(0, "a", 0.5, 2.0), (1, "a", None, None)]
    assert math.isnan(rows[2][2])
    assert rows[2][3] is None


def test_every_derived_column_is_documented_and_rests_on_recorded_ones() -> None:
    for table, columns in derived.DERIVED.items():
        for name, item in columns.items():
            assert name not in schema.TABLES[table].columns
            assert item.column.description
            assert set(item.ingredients) <= schema.TABLES[table].columns.keys()
            assert derived.column(table, name) is item.column


def test_derived_columns_have_the_type_they_claim(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, {"loss": [1.0]}, {"a": {"param_norm": [1.0]}}))
    names = {"float64": pl.Float64, "float32": pl.Float32, "bool": pl.Boolean}
    for table, columns in derived.DERIVED.items():
        types = run.table(table).collect_schema()
        assert {name: types[name] for name in columns} == {
            name: names[item.column.dtype] for name, item in columns.items()
        }


def test_an_unknown_column_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(KeyError, match=r"no column 'gradnorm'; it has step, tensor, grad_norm"):
        derived.column("layers", "gradnorm")


@pytest.mark.parametrize(
    ("total", "kept", "told"),
    [(1.0, 8, True), (1.5, 8, False), (1.5, 4, True), (None, 8, True)],
    ids=["adds up", "a penalty", "a subset of the samples", "no total"],
)
def test_alpha_is_null_where_the_layers_do_not_tell_the_whole_gradient(
    total: float | None, kept: int, told: bool
) -> None:
    rows = {
        "loss": [3.0, 2.0],
        "loss_var": [0.1, 0.1],
        "start_slope": [-3.0, None],
        "start_slope_var": [0.1, None],
        "end_slope": [None, 1.0],
        "end_slope_var": [None, 0.1],
        "update_norm": [1.0, None],
        "end_slope_total": [None, total],
        "slope_count": [8, kept],
        "batch_size": [8, 8],
    }
    alpha, concave = alpha_of(rows)
    assert (alpha is not None) == told
    assert (concave is not None) == told
