"""Exported files hold what the analyzer reads, say what it means, and take nobody's place."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from support.pages import full_run
from support.runs import write_run

from analyzer.charts.loss import Loss
from analyzer.derived import DERIVED
from analyzer.errors import ConfigError, GlideslopeError
from analyzer.export import dictionary, export
from analyzer.run import Run, open_run
from recorder import schema

NAN, INF = float("nan"), float("inf")
STEPS: dict[str, Any] = {
    "loss": [2.5, NAN, INF, None],
    "loss_var": [0.1, 0.2, 0.3, 0.4],
    "loss_count": [4, 4, 4, 4],
    "lr": [[0.1, 0.01], [1e-7, NAN], [], None],
    "skipped": [True, False, None, False],
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with lists, values that are not finite, words with commas and quotes, and a histogram."""
    return open_run(
        write_run(
            tmp_path / "run",
            STEPS,
            {'a,"b"\n': {"grad_norm": [1.5, 2.5, 3.5, 4.5], "param_norm": 2.0}},
            [{"kind": "start", "message": 'it "began", at last', "detail": {"x": [1]}}],
            {"step": [3], "split": "valid", "name": "ärger", "value": 0.25},
            histograms={"step": [0], "tensor": "w", "counts": [[0, 5, 10**12]]},
        )
    )


def quiet(text: str) -> None:
    """Shows nothing."""


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_there_is_a_file_for_every_table_one_on_the_columns_and_the_run_file(run, tmp_path, form) -> None:
    shown: list[str] = []
    written = export(run, tmp_path / "out", form, shown.append)
    names = {*(f"{name}.{form}" for name in schema.TABLES), "columns.csv", "run.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in written} == names
    assert [line.split()[0] for line in shown] == [f"[{i}/6]" for i in range(1, 7)]
    assert json.loads((tmp_path / "out/run.json").read_text()) == run.manifest.raw


def test_parquet_holds_every_table_as_the_analyzer_reads_it(run, tmp_path) -> None:
    export(run, tmp_path / "out", "parquet", quiet)
    for name in schema.TABLES:
        found = pl.read_parquet(tmp_path / f"out/{name}.parquet")
        assert found.equals(run.table(name).collect(), null_equal=True), name
        assert set(found.columns) == {*schema.TABLES[name].columns, *DERIVED.get(name, {})}


def test_csv_holds_the_same_lists_as_json(run, tmp_path) -> None:
    export(run, tmp_path / "out", "csv", quiet)
    steps = rows(tmp_path / "out/steps.csv")
    assert [row["loss"] for row in steps] == ["2.5", "NaN", "inf", ""]
    assert [row["lr"] for row in steps] == ["[0.1,0.01]", "[1e-7,null]", "[]", ""]
    assert [row["skipped"] for row in steps] == ["true", "false", "", "false"]
    assert float(steps[0]["loss_se"]) == pytest.approx(math.sqrt(0.1 / 4))
    layers = rows(tmp_path / "out/layers.csv")
    assert [(row["tensor"], row["grad_ratio"]) for row in layers][:2] == [('a,"b"\n', "0.75"), ('a,"b"\n', "1.25")]
    (histogram,) = rows(tmp_path / "out/histograms.csv")
    assert json.loads(histogram["counts"]) == [0, 5, 10**12]
    (event,) = rows(tmp_path / "out/events.csv")
    assert (event["message"], json.loads(event["detail"])) == ('it "began", at last', {"x": [1]})
    assert rows(tmp_path / "out/metrics.csv")[0]["name"] == "ärger"
    assert rows(tmp_path / "out/modules.csv") == []


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_every_column_is_explained_with_its_unit(run, tmp_path, form) -> None:
    export(run, tmp_path / "out", form, quiet)
    told = rows(tmp_path / "out/columns.csv")
    for name in schema.TABLES:
        path = tmp_path / f"out/{name}.{form}"
        header = pl.read_parquet_schema(path) if form == "parquet" else next(csv.reader(path.open()))
        assert [row["column"] for row in told if row["table"] == name] == list(header)
    assert all(row["description"] for row in told)
    by_name = {(row["table"], row["column"]): row for row in told}
    assert by_name["steps", "time"]["unit"] == "s"
    assert by_name["steps", "alpha"]["source"] == "derived"
    assert by_name["steps", "lr"]["source"] == "recorded"
    assert by_name["steps", "lr"]["type"] == "list<float64>" + (" as a JSON array" if form == "csv" else "")
    assert (tmp_path / "out/columns.csv").read_text() == dictionary(form)


def test_attempts_and_ranks_are_resolved(tmp_path) -> None:
    path = tmp_path / "run"
    for rank in (0, 1):
        write_run(path, {"loss": [1.0 + rank] * 4, "batch_size": 8}, rank=rank, manifest={"rank_count": 2}, end=None)
        write_run(
            path, {"loss": [9.0] * 2, "batch_size": 8}, attempt=1, rank=rank, first_step=2, manifest={"rank_count": 2}
        )
    export(open_run(path), tmp_path / "out", "csv", quiet)
    steps = rows(tmp_path / "out/steps.csv")
    assert [(row["step"], row["loss"], row["batch_size"]) for row in steps] == [
        ("0", "1.5", "16"),
        ("1", "1.5", "16"),
        ("2", "9.0", "16"),
        ("3", "9.0", "16"),
    ]


def test_tables_go_through_memory_a_part_at_a_time(run, tmp_path, monkeypatch) -> None:
    read: set[str] = set()
    frame = Run.frame

    def told(self: Run, table: str, *columns: str) -> pl.DataFrame:
        read.update(f"{table}.{column}" for column in columns)
        return frame(self, table, *columns)

    monkeypatch.setattr(Run, "frame", told)
    monkeypatch.setattr(pl.LazyFrame, "collect", guarded(pl.LazyFrame.collect))
    export(run, tmp_path / "out", "csv", quiet)
    assert not read


def guarded(collect: Any) -> Any:
    """A `collect` that refuses what is more than a few columns."""

    def narrow(self: pl.LazyFrame, *args: Any, **options: Any) -> Any:
        assert len(self.collect_schema()) <= 3
        return collect(self, *args, **options)

    return narrow


@pytest.mark.parametrize("there", ["steps.csv", "columns.csv", "run.json", "charts"])
def test_nothing_is_overwritten_and_nothing_written_before_that_is_told(run, tmp_path, there: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / there).write_text("precious")
    with pytest.raises(GlideslopeError, match=f"{there} exists: name another directory with -o, or use --force"):
        export(run, out, "csv", quiet, charts=True)
    assert [path.name for path in out.iterdir()] == [there]
    assert (out / there).read_text() == "precious"


def test_force_replaces_what_is_written_and_leaves_the_rest(run, tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("steps.csv", "mine.csv"):
        (out / name).write_text("old")
    export(run, out, "csv", quiet, force=True)
    assert len(rows(out / "steps.csv")) == 4
    assert (out / "mine.csv").read_text() == "old"
    with pytest.raises(GlideslopeError, match=r"steps\.csv and 7 more exist"):
        export(run, out, "csv", quiet)


def test_a_place_that_cannot_be_used_is_told(run, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(GlideslopeError, match="cannot be made"):
            export(run, place, "csv", quiet)
    with pytest.raises(GlideslopeError, match="is where the recorder's shards lie"):
        export(run, tmp_path / "run" / "steps", "parquet", quiet)
    with pytest.raises(ConfigError, match=r'no format "parkett" \(did you mean "parquet"\?\)'):
        export(run, tmp_path / "out", "parkett", quiet)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_damaged_shard_leaves_no_half_table(tmp_path, form: str) -> None:
    path = write_run(tmp_path / "run", {"loss": [1.0] * 9}, {"w": {"grad_norm": [float(i) for i in range(9)]}})
    (shard,) = (path / "layers").iterdir()
    names = pq.read_schema(shard).names
    chunk = pq.read_metadata(shard).row_group(0).column(names.index("grad_norm"))
    content = bytearray(shard.read_bytes())
    content[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = (
        b"\xff" * chunk.total_compressed_size
    )
    shard.write_bytes(content)
    with pytest.raises(GlideslopeError, match=r"layers\.\w+ cannot be written \(.*\): see .* layers/ has whole shards"):
        export(open_run(path), tmp_path / "out", form, quiet)
    assert [item.name for item in (tmp_path / "out").iterdir()] == [f"steps.{form}"]


def test_charts_come_in_a_folder_of_their_own(tmp_path) -> None:
    run = full_run(tmp_path, 60)
    shown: list[str] = []
    written = export(run, tmp_path / "out", "parquet", shown.append, charts=True)
    assert written[-1] == tmp_path / "out/charts"
    names = {path.name for path in written[-1].iterdir()}
    assert {"loss.svg", "alpha.svg", "gradient-heatmap.svg", "tensor-history-0-weight.svg"} < names
    assert any("Learning rate" in line for line in shown)


def test_a_chart_that_cannot_be_drawn_is_told_when_all_else_is_written(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Loss, "draw", lambda self, run: 1 / 0)
    with pytest.raises(
        GlideslopeError, match=r"Loss \(ZeroDivisionError: .*\) could not be drawn; everything else is in"
    ):
        export(full_run(tmp_path, 20), tmp_path / "out", "csv", quiet, charts=True)
    names = {path.name for path in (tmp_path / "out/charts").iterdir()}
    assert "alpha.svg" in names
    assert "loss.svg" not in names
