"""Derived columns about gradient noise, against their definitions on individual gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs import arrow_table

from analyzer import derived
from analyzer.shards import polars_schema
from recorder import schema

NAMES = ("norm_test", "inner_test", "ortho_test", "mean_gsnr", "early_stopping", "noise_scale", "cabs")


def recorded(gradients: np.ndarray, **changes: Any) -> dict[str, Any]:
    """A row of `steps` as the recorder writes it for individual gradients (samples, entries)."""
    mean, count = gradients.mean(0), len(gradients)
    dots = gradients @ mean
    ratio = mean**2 / gradients.var(0)
    row = {
        "step": 0, "loss": 2.0, "lr": [0.5], "batch_size": count, "grad_norm": np.linalg.norm(mean),
        "grad_var": gradients.var(0, ddof=1).sum(), "inner_mean": dots.mean(), "inner_var": dots.var(ddof=1),
        "individual_count": count, "gsnr_sum": ratio.sum(), "gsnr_count": float(len(ratio)),
    }  # fmt: skip
    return row | changes


def derive(row: dict[str, Any]) -> dict[str, float | None]:
    table = arrow_table("steps", {name: [value] for name, value in row.items()})
    frame = pl.concat([pl.DataFrame(schema=polars_schema(schema.STEPS)), pl.from_arrow(table)], how="diagonal")
    return derived.with_derived("steps", frame.lazy()).select(NAMES).collect().row(0, named=True)


def by_definition(g: np.ndarray) -> dict[str, float]:
    """The formulas of the papers, sample by sample."""
    batch, mean = len(g), g.mean(0)
    squared = mean @ mean
    norms, dots = (g**2).sum(1), g @ mean
    across = norms - dots**2 / squared
    covariance = ((g - mean) ** 2).sum() / (batch - 1)
    return {
        "norm_test": np.sqrt((norms.sum() - batch * squared) / (batch - 1) / (batch * squared)),
        "inner_test": np.sqrt(((dots**2).sum() - batch * squared**2) / (batch - 1) / (batch * squared**2)),
        "ortho_test": np.sqrt(max(0.0, across.sum()) / (batch - 1) / (batch * squared)),
        "mean_gsnr": (mean**2 / g.var(0)).mean(),
        "early_stopping": 1 - batch * (mean**2 / g.var(0, ddof=1)).mean(),
        "noise_scale": covariance / (squared - covariance / batch),
        "cabs": 0.5 * (norms.mean() - squared) / 2.0,
    }


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 12))
def test_they_equal_their_definitions(seed: int, samples: int, entries: int) -> None:
    gradients = np.random.default_rng(seed).normal(3.0, 1.0, (samples, entries))
    found, expected = derive(recorded(gradients)), by_definition(gradients)
    for name in NAMES:
        if name == "noise_scale" and expected[name] < 0:
            assert found[name] is None
        else:
            assert found[name] == pytest.approx(expected[name], rel=1e-6, abs=1e-7)  # the root of a rounding error


def test_a_batch_of_one_has_none() -> None:
    row = recorded(np.ones((4, 3)) + np.eye(4, 3), individual_count=1)
    assert {name: derive(row)[name] for name in NAMES if name != "mean_gsnr"} == {
        name: None for name in NAMES if name != "mean_gsnr"
    }


def test_without_scatter_the_tests_are_zero_even_where_rounding_made_it_negative() -> None:
    found = derive(recorded(np.ones((4, 3)) + np.eye(4, 3), grad_var=0.0, inner_var=1e-12))
    assert found["norm_test"] == 0.0
    assert found["ortho_test"] == 0.0
    assert found["noise_scale"] == 0.0


def test_they_are_null_where_the_layers_do_not_tell_the_whole_gradient() -> None:
    gradients = np.random.default_rng(0).normal(1.0, 1.0, (8, 5))
    penalised = recorded(gradients, grad_norm=2 * np.linalg.norm(gradients.mean(0)))
    assert derive(penalised)["norm_test"] is None
    assert derive(penalised | {"individual_count": 4})["norm_test"] is not None


def derive_one(table: str, name: str, **values: Any) -> float | None:
    frame = pl.DataFrame([values], schema=polars_schema(schema.TABLES[table]))
    return derived.with_derived(table, frame.lazy()).select(name).collect().item()


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 12), st.floats(0.1, 10))
def test_the_trace_form_of_takeuchis_criterion(seed: int, samples: int, entries: int, trace: float) -> None:
    gradients = np.random.default_rng(seed).normal(3.0, 1.0, (samples, entries))
    square = (gradients**2).sum(1).mean()
    found = derive_one("steps", "tic_trace", **recorded(gradients, hess_trace=trace))
    assert found == pytest.approx(square / trace, rel=1e-9)
    found = derive_one("layers", "tic_trace", step=0, tensor="0.weight", grad_square=square, hess_trace=trace)
    assert found == pytest.approx(square / trace, rel=1e-5)


@pytest.mark.parametrize("trace", [0.0, -1.0, None])
def test_without_positive_curvature_there_is_no_trace_form(trace: float | None) -> None:
    row = recorded(np.random.default_rng(0).normal(3.0, 1.0, (8, 5)), hess_trace=trace)
    assert derive_one("steps", "tic_trace", **row) is None
    assert derive_one("layers", "tic_trace", step=0, tensor="0.weight", grad_square=2.0, hess_trace=trace) is None


@pytest.mark.parametrize(("total", "count", "expected"), [(7.0, 3.0, 7.0), (0.0, 0.0, None), (np.inf, 3.0, None)])
def test_the_diagonal_form_is_of_the_entries_with_curvature(total: float, count: float, expected: float | None) -> None:
    assert derive_one("steps", "tic_diagonal", step=0, tic_sum=total, tic_count=count) == expected
    found = derive_one("layers", "tic_diagonal", step=0, tensor="0.weight", tic_sum=total, tic_count=count)
    assert found == expected
