"""Rows of several ranks become one by the rule that each column declares."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs import write_run

from analyzer.resolve import disorder
from analyzer.run import Run, open_run
from recorder import schema

RECORDED = [(table, column) for table in schema.TABLES.values() for column in table.columns.values()]


@pytest.mark.parametrize(("table", "column"), RECORDED, ids=lambda item: item.name)
def test_every_column_declares_how_ranks_combine(table: schema.Table, column: schema.Column) -> None:
    assert column.ranks is not None
    assert (column.ranks.rule == "key") == (column.name in (*table.keys, "step"))
    needed = {"mean": (), "variance": ("weight", "mean"), "deviation": ("mean",)}
    for name in needed.get(column.ranks.rule, ()):
        assert getattr(column.ranks, name) is not None
    if column.ranks.weight is not None:
        assert table[column.ranks.weight].ranks == schema.SUM
    if column.ranks.mean is not None:
        mean = table[column.ranks.mean].ranks
        assert mean is not None
        assert mean.rule == "mean"


def test_a_table_refuses_a_column_without_a_rule() -> None:
    with pytest.raises(ValueError, match=r"things\.value does not say"):
        schema._table("things", "", ("step",), schema.Column("value", "float64", "", ""))


def recorded_by(path: Path, *ranks: dict[str, Any]) -> Run:
    """A run whose ranks wrote these tables."""
    for rank, tables in enumerate(ranks):
        write_run(path, **tables, rank=rank, manifest={"rank_count": len(ranks)})
    return open_run(path)


def combined(path: Path, table: str, *ranks: dict[str, Any]) -> dict[str, Any]:
    """The only row of the combined table."""
    frame = recorded_by(path, *({table: columns} for columns in ranks)).table(table).collect()
    assert len(frame) == 1
    return frame.row(0, named=True)


def test_counts_add_up(tmp_path: Path) -> None:
    row = combined(
        tmp_path,
        "steps",
        {"class_counts": [[1.0, 2.0]], "input_nonfinite": 1.0, "gsnr_sum": 3.0, "gsnr_count": 5.0, "batch_size": 4},
        {"class_counts": [[0.0, 3.0]], "input_nonfinite": 2.0, "gsnr_sum": 4.0, "gsnr_count": 6.0, "batch_size": 2},
    )
    assert row["class_counts"] == [1.0, 5.0]
    assert (row["input_nonfinite"], row["gsnr_sum"], row["gsnr_count"], row["batch_size"]) == (3.0, 7.0, 11.0, 6)


def test_histograms_add_up_element_by_element(tmp_path: Path) -> None:
    keys = {"step": [0, 0, 1], "tensor": ["b", "a", "b"]}
    ranks = (
        {"counts": [[2**62, 1], [3, 4], [5, 6]], "joint_counts": [[1], None, [4]], "samples": [2, 2, 2]},
        {"counts": [[10, 20], None, [50, 60]], "joint_counts": [[2], None, [5]], "samples": [1, None, 2]},
        {"counts": [[100, 200], [1, 1], None], "joint_counts": [[3], None, None], "samples": [1, 1, None]},
    )
    run = recorded_by(tmp_path, *({"steps": {"loss": [1.0, 1.0]}, "histograms": keys | columns} for columns in ranks))
    frame = run.table("histograms").collect()
    assert frame.columns == list(schema.HISTOGRAMS.columns)
    assert frame["counts"].dtype == pl.List(pl.Int64)
    assert frame.rows() == [
        (0, "b", [2**62 + 110, 221], [6], 4),
        (0, "a", [4, 5], None, 3),
        (1, "b", [55, 66], [9], 4),
    ]


def test_lists_of_different_lengths_have_no_sum(tmp_path: Path) -> None:
    row = combined(tmp_path, "steps", {"class_counts": [[1.0, 2.0]]}, {"class_counts": [[1.0, 2.0, 3.0]]})
    assert row["class_counts"] is None


def test_extremes_are_those_of_all_ranks(tmp_path: Path) -> None:
    row = combined(
        tmp_path,
        "steps",
        {"input_absmax": 4.0, "target_min": -1.0, "training_share": 1.0, "prediction_max": math.nan, "probed": False},
        {"input_absmax": 7.0, "target_min": 2.0, "training_share": 0.5, "prediction_max": 1.0, "probed": True},
    )
    assert (row["input_absmax"], row["target_min"], row["training_share"], row["probed"]) == (7.0, -1.0, 0.5, True)
    assert math.isnan(row["prediction_max"])


def test_the_input_is_described_as_one_batch(tmp_path: Path) -> None:
    source = np.random.default_rng(0)
    parts = [source.normal(rank, 1 + rank, size) for rank, size in enumerate((5, 1, 8))]
    ranks = [
        {"input_mean": [part.mean()], "input_std": [part.std()], "hess_trace": [float(rank)], "batch_size": len(part)}
        for rank, part in enumerate(parts)
    ]
    row = combined(tmp_path, "steps", *ranks)
    together = np.concatenate(parts)
    assert row["input_mean"] == pytest.approx(together.mean(), rel=1e-12)
    assert row["input_std"] == pytest.approx(together.std(), rel=1e-12)
    assert row["hess_trace"] == pytest.approx((0 * 5 + 1 * 1 + 2 * 8) / 14, rel=1e-12)


def test_layers_are_combined_too(tmp_path: Path) -> None:
    """The rows of a step that only one rank kept, around an incident of its own, are there as well."""
    shared = {"step": [0, 0], "tensor": ["b", "a"], "grad_norm": [1.0, 2.0]}
    ranks = (
        shared | {"grad_var": [1.0, 2.0], "gsnr_sum": [1.0, None], "hess_trace": [3.0, None]},
        {"step": [0, 0, 1], "tensor": ["b", "a", "a"], "grad_norm": [9.0, 9.0, 8.0]}
        | {"grad_var": [3.0, None, 5.0], "gsnr_sum": [2.0, None, 4.0], "hess_trace": [5.0, 7.0, None]},
    )
    run = recorded_by(tmp_path, *({"steps": {"loss": [1.0, 1.0]}, "layers": columns} for columns in ranks))
    assert run.frame("layers", "grad_norm", "grad_var", "gsnr_sum", "hess_trace").rows() == [
        (0, "b", 1.0, 2.0, 3.0, 4.0),
        (0, "a", 2.0, 2.0, None, 7.0),
        (1, "a", 8.0, 5.0, 4.0, None),
    ]
    assert run.table("layers").collect_schema()["grad_var"] == pl.Float32


def test_a_unit_dead_on_all_ranks_is_dead_on_each(tmp_path: Path) -> None:
    keys = {"step": [0], "module": ["1"]}
    row = combined(
        tmp_path,
        "modules",
        keys | {"dead_share": 0.5, "training": True, "unit_count": 8, "normalized_over": 32},
        keys | {"dead_share": 0.25, "training": False, "unit_count": 8, "normalized_over": 16},
    )
    assert (row["dead_share"], row["training"], row["unit_count"], row["normalized_over"]) == (0.25, False, 8, 16)


def test_what_ranks_share_is_the_lowest_ranks_that_has_it(tmp_path: Path) -> None:
    row = combined(
        tmp_path, "steps", {"grad_norm": [None], "lr": [[0.1]]}, {"grad_norm": 2.0, "lr": [[0.2]]}, {"grad_norm": 3.0}
    )
    assert (row["grad_norm"], row["lr"]) == (2.0, [0.1])


def test_what_was_logged_is_the_lowest_ranks(tmp_path: Path) -> None:
    """All of it, in its order: the same name may be logged twice at a step."""
    logged = {"step": [0, 0], "split": "valid", "name": "loss", "value": [1.0, 2.0]}
    run = recorded_by(tmp_path, {"metrics": logged}, {"metrics": logged | {"value": [3.0, 4.0]}})
    assert run.frame("metrics", "value")["value"].to_list() == [1.0, 2.0]


@given(st.lists(st.integers(0, 9), max_size=20))
def test_rows_are_put_in_the_order_of_their_steps(steps: list[int]) -> None:
    moves = disorder(pl.LazyFrame({"step": steps}, schema={"step": pl.Int64}))
    assert (moves is None) == (steps == sorted(steps))
    order = sorted(range(len(steps)), key=steps.__getitem__)
    for written in (list(range(len(steps))), [f"tensor {i}" for i in order], [[i] for i in order], [None, *order[1:]]):
        column = pl.Series(written[: len(steps)])
        in_order = column if moves is None else moves.of(column)
        assert in_order.to_list() == [column[i] if column.dtype != pl.List else [order[i]] for i in order]


def test_of_a_step_the_rows_stay_as_they_were_written() -> None:
    steps = pl.LazyFrame({"step": [0, 1, 1, 3, 3, 2, 2, 4, 4]})
    moves = disorder(steps)
    assert moves is not None
    assert moves.places.to_list() == [3, 4, 5, 6], "the others are in their place"
    assert moves.of(pl.Series(list("abcdefghi"))).to_list() == list("abcfgdehi")
