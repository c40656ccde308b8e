"""Opening runs: whole, torn, mixed up, resumed and distributed ones."""

from __future__ import annotations

import contextlib
import json
import math
import random
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.runs import end_file, run_file, tensor_entries, write_run, write_shards

from analyzer.run import RunError, open_run
from analyzer.shards import Shard, spread
from recorder import schema

LOSSES = {"loss": [3.0, 2.0, 1.0]}


def losses(run_dir: Path) -> list[tuple[int, float | None]]:
    return open_run(run_dir).frame("steps", "loss").rows()


def test_a_whole_run(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "digits", LOSSES, {"0.weight": {"grad_norm": [1.0, 2.0, 3.0]}}))
    assert (run.name, run.status, run.failure, run.problems) == ("digits", "completed", None, ())
    assert (run.first_step, run.last_step, run.step_count) == (0, 2, 3)
    assert [tensor.name for tensor in run.tensors] == ["0.weight"]
    assert run.tensors[0].numel == 64
    assert run.groups[0].options["momentum"] == 0.9
    assert run.frame("layers", "grad_norm").rows() == [(0, "0.weight", 1.0), (1, "0.weight", 2.0), (2, "0.weight", 3.0)]


def test_null_is_not_measured_and_nan_is_measured(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, {"loss": [math.nan, None, math.inf, 1.0], "grad_norm": None}))
    column = run.frame("steps", "loss")["loss"]
    assert column.is_null().to_list() == [False, True, False, False]
    assert column.is_nan().to_list() == [True, None, False, False]
    assert (run.count("steps", "loss"), run.has("steps", "grad_norm")) == (3, False)


def test_columns_that_were_never_recorded_exist_and_are_null(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, LOSSES))
    for name, table in schema.TABLES.items():
        assert set(table.columns) <= set(run.table(name).collect_schema())
    assert run.frame("steps", "stale_grad_norm", "class_counts").row(0) == (0, None, None)
    with pytest.raises(KeyError, match="no column 'losss'"):
        run.frame("steps", "losss")


def test_columns_are_read_once_and_stay_aligned(tmp_path: Path) -> None:
    layers = {"a": {"grad_norm": [7.0, 8.0, 9.0], "param_norm": 1.0}}
    run = open_run(write_run(tmp_path, LOSSES, layers, shards=3))
    first = run.frame("layers", "grad_norm")
    (tmp_path / "layers").rename(tmp_path / "gone")
    assert run.frame("layers", "grad_norm").equals(first)
    assert run.count("layers", "grad_norm") == 3
    with pytest.raises((pl.exceptions.PolarsError, OSError)):
        run.frame("layers", "param_norm")


def test_columns_of_steps_are_read_with_their_neighbours(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, LOSSES | {"grad_norm": [7.0, 8.0, 9.0]}, shards=3))
    run.frame("steps", "loss")
    (tmp_path / "steps").rename(tmp_path / "gone")
    assert run.frame("steps", "grad_norm", "loss").rows() == [(0, 7.0, 3.0), (1, 8.0, 2.0), (2, 9.0, 1.0)]


def test_a_damaged_column_harms_only_those_who_ask_for_it(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, LOSSES | {"grad_norm": [7.0, 8.0, 9.0]}))
    (shard,) = (tmp_path / "steps").iterdir()
    whole, column = shard.read_bytes(), pq.ParquetFile(shard).metadata.row_group(0).column(2)
    assert column.path_in_schema == "grad_norm"
    place, size = column.data_page_offset, column.total_compressed_size
    shard.write_bytes(whole[:place] + b"\xff" * size + whole[place + size :])
    assert run.frame("steps", "loss")["loss"].to_list() == [3.0, 2.0, 1.0]
    with pytest.raises((pl.exceptions.PolarsError, pl.exceptions.PanicException)):
        run.frame("steps", "grad_norm")


def test_shards_that_gained_and_lost_columns(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES)
    write_shards(tmp_path, "steps", {"step": [3], "grad_norm": [5.0]}, sequence=1)
    rows = open_run(tmp_path).frame("steps", "loss", "grad_norm").rows()
    assert rows == [(0, 3.0, None), (1, 2.0, None), (2, 1.0, None), (3, None, 5.0)]


def test_rows_written_late_are_sorted_in(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES)
    write_shards(tmp_path, "layers", {"step": [0, 2], "tensor": "a", "grad_norm": [0.0, 2.0]})
    write_shards(tmp_path, "layers", {"step": [1], "tensor": "a", "grad_norm": [1.0]}, sequence=1)
    assert open_run(tmp_path).frame("layers", "grad_norm").rows() == [(0, "a", 0.0), (1, "a", 1.0), (2, "a", 2.0)]


def test_directory_names_that_look_like_patterns(tmp_path: Path) -> None:
    assert losses(write_run(tmp_path / "lr=0.1" / "[seed] *1*", LOSSES)) == [(0, 3.0), (1, 2.0), (2, 1.0)]


def test_a_tilde_is_not_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "~" / "digits", LOSSES)
    monkeypatch.chdir(tmp_path)
    assert losses(Path("~/digits")) == [(0, 3.0), (1, 2.0), (2, 1.0)]


def test_a_row_without_a_step_is_none(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, {"step": [None, 0, None], "loss": [1.0, 2.0, 3.0]}, end=None))
    assert run.frame("steps", "loss").rows() == [(0, 2.0)]
    assert (run.first_step, run.last_step) == (0, 0)


def test_events_and_metrics(tmp_path: Path) -> None:
    events = [
        {"step": 2, "kind": "incident", "detail": {"what": "jump"}},
        {"step": 0, "kind": "start", "message": "began"},
        {"step": 2, "kind": "error", "detail": "not JSON"},
        {"step": 2, "kind": "error", "detail": "[1]"},
    ]
    metrics = {"step": [0, 1], "split": "valid", "name": "accuracy", "value": [0.5, 0.6]}
    run = open_run(write_run(tmp_path, LOSSES, events=events, metrics=metrics))
    assert [(event.step, event.kind) for event in run.events][:2] == [(0, "start"), (2, "incident")]
    assert run.events_of("incident")[0].detail == {"what": "jump"}
    assert [event.detail for event in run.events_of("error")] == [{}, {}]
    assert run.frame("metrics", "value").rows() == [(0, "valid", "accuracy", 0.5), (1, "valid", "accuracy", 0.6)]


# How a run ended


def test_a_failed_run_says_how(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, LOSSES, end="failed", exception="ValueError: no"))
    assert (run.status, run.failure) == ("failed", "ValueError: no")


def test_a_killed_run_is_unfinished(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, LOSSES, end=None))
    assert (run.status, run.failure, run.step_count) == ("unfinished", None, 3)


def test_a_rank_that_failed_fails_the_run(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES, manifest={"rank_count": 2})
    write_run(tmp_path, LOSSES, rank=1, end="failed", exception="RuntimeError: NCCL")
    assert open_run(tmp_path).failure == "RuntimeError: NCCL (rank 1)"


def test_a_rank_without_an_end_leaves_the_run_unfinished(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES, manifest={"rank_count": 2})
    write_run(tmp_path, LOSSES, rank=1, end=None)
    assert open_run(tmp_path).status == "unfinished"


def test_only_the_newest_attempt_says_how_the_run_ended(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES, end="failed", exception="OSError: disk full")
    write_run(tmp_path, LOSSES, attempt=1, first_step=3)
    assert open_run(tmp_path).status == "completed"


def test_a_run_without_steps(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, end="failed", exception="ValueError: first batch"))
    assert (run.step_count, run.first_step, run.last_step) == (0, None, None)
    assert run.failure == "ValueError: first batch"
    assert run.table("layers").collect().is_empty()
    assert run.events == ()


# Attempts and ranks


def test_a_new_attempt_voids_what_follows_its_first_step(tmp_path: Path) -> None:
    layer = {"a": {"grad_norm": [1.0, 1.0, 1.0, 1.0]}}
    write_run(tmp_path, {"loss": [1.0, 2.0, 3.0, 4.0]}, layer, end=None)
    write_run(tmp_path, {"loss": [30.0, 40.0]}, {"a": {"grad_norm": [9.0, 9.0]}}, attempt=1, first_step=2, end=None)
    write_run(tmp_path, {"loss": [400.0]}, attempt=2, first_step=3)
    run = open_run(tmp_path)
    assert run.frame("steps", "loss").rows() == [(0, 1.0), (1, 2.0), (2, 30.0), (3, 400.0)]
    assert run.frame("layers", "grad_norm")["grad_norm"].to_list() == [1.0, 1.0, 9.0]
    assert (run.manifest.attempt, len(run.attempts)) == (2, 3)


def test_an_attempt_that_lost_its_run_file_still_voids_earlier_rows(tmp_path: Path) -> None:
    write_run(tmp_path, {"loss": [1.0, 2.0, 3.0]}, end=None)
    write_run(tmp_path, {"loss": [20.0, 30.0]}, attempt=1, first_step=1, end=None)
    write_run(tmp_path, {"loss": [300.0]}, attempt=2, first_step=2)
    (tmp_path / "run-a01.json").write_text("{")
    run = open_run(tmp_path)
    assert run.frame("steps", "loss").rows() == [(0, 1.0), (1, 20.0), (2, 300.0)]
    assert len(run.problems) == 1
    assert "run-a01.json is truncated" in run.problems[0]


def test_ranks_are_combined_as_one_sample(tmp_path: Path) -> None:
    """Losses and slopes of all samples, split over ranks of different size, against the statistics of the whole."""
    source = random.Random(0)
    parts = [[(source.gauss(1, 2), source.gauss(-3, 1)) for _ in range(size)] for size in (5, 1, 3)]
    for rank, part in enumerate(parts):
        sample, slopes = zip(*part, strict=True)
        single = len(part) == 1
        steps = {
            "loss": [statistics.fmean(sample)],
            "loss_var": [None if single else statistics.variance(sample)],
            "loss_count": len(part),
            "start_slope": statistics.fmean(slopes),
            "start_slope_var": math.nan if single else statistics.variance(slopes),
            "slope_count": len(part),
            "inner_mean": statistics.fmean(slopes),
            "inner_var": None if single else statistics.variance(slopes),
            "grad_var": 2.0 + rank,
            "individual_count": len(part),
            "batch_size": len(part),
            "grad_norm": 10.0 + rank,
            "duration": 1.0 + rank,
            "input_absmax": [math.nan if rank == 1 else 4.0],
            "lr": [[0.1]],
        }
        write_run(tmp_path, steps, {"a": {"grad_norm": [1.0 + rank]}}, rank=rank, manifest={"rank_count": 3})
    run = open_run(tmp_path)
    sample, slopes = zip(*(pair for part in parts for pair in part), strict=True)
    row = run.table("steps").collect().row(0, named=True)
    assert run.step_count == 1
    assert row["loss"] == pytest.approx(statistics.fmean(sample), rel=1e-12)
    assert row["loss_var"] == pytest.approx(statistics.variance(sample), rel=1e-12)
    assert row["start_slope"] == pytest.approx(statistics.fmean(slopes), rel=1e-12)
    assert row["start_slope_var"] == pytest.approx(statistics.variance(slopes), rel=1e-12)
    assert (row["batch_size"], row["loss_count"], row["slope_count"], row["individual_count"]) == (9, 9, 9, 9)
    assert row["inner_mean"] == pytest.approx(statistics.fmean(slopes), rel=1e-12)
    assert row["inner_var"] == pytest.approx(statistics.variance(slopes), rel=1e-12)
    assert row["grad_var"] == pytest.approx((5 * 2.0 + 1 * 3.0 + 3 * 4.0) / 9, rel=1e-12)
    assert (row["grad_norm"], row["duration"], row["lr"]) == (10.0, 3.0, [0.1])
    assert math.isnan(row["input_absmax"])
    assert row["input_nonfinite"] is None
    assert run.frame("layers", "grad_norm").rows() == [(0, "a", 1.0)]
    assert run.problems == ()


def test_a_nan_of_one_rank_is_not_averaged_away(tmp_path: Path) -> None:
    write_run(tmp_path, {"loss": [1.0, 1.0], "batch_size": 4}, manifest={"rank_count": 2})
    write_run(tmp_path, {"loss": [3.0, math.nan], "batch_size": 12}, rank=1)
    run = open_run(tmp_path)
    assert run.frame("steps", "loss")["loss"].is_nan().to_list() == [False, True]
    assert run.frame("steps", "loss")["loss"][0] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("count", "words"), [(2, "1 of 2 ranks in attempt 0: rank 1 is"), (9, "ranks 1, 2, 3, 4, … are")]
)
def test_missing_ranks_are_reported(tmp_path: Path, count: int, words: str) -> None:
    run = open_run(write_run(tmp_path, LOSSES, manifest={"rank_count": count}))
    assert len(run.problems) == 1
    assert words in run.problems[0]
    assert run.step_count == 3


# Shards that cannot be used


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("damage", [tear, lambda path: path.write_bytes(b"")], ids=["torn", "empty"])
def test_a_torn_shard_is_skipped_and_reported(tmp_path: Path, damage: Any) -> None:
    write_run(tmp_path, LOSSES, shards=3)
    damage(tmp_path / "steps" / "a00-r000-000001.parquet")
    run = open_run(tmp_path)
    assert run.frame("steps", "loss").rows() == [(0, 3.0), (2, 1.0)]
    assert [problem.split(":")[0] for problem in run.problems] == [
        "steps/a00-r000-000001.parquet is torn (no readable footer)"
    ]


def test_many_torn_shards_are_one_sentence(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES, shards=3)
    for path in (tmp_path / "steps").iterdir():
        tear(path)
    run = open_run(tmp_path)
    assert run.step_count == 0
    assert len(run.problems) == 1
    assert "steps/a00-r000-000000.parquet (and 2 more like it) is torn" in run.problems[0]


def test_a_shard_damaged_in_the_middle_is_skipped_and_reported(tmp_path: Path) -> None:
    write_run(tmp_path, {"loss": [0.1 * step for step in range(1000)]}, shards=2)
    path = tmp_path / "steps" / "a00-r000-000000.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    run = open_run(tmp_path)
    assert (run.first_step, run.step_count) == (500, 500)
    assert "a00-r000-000000.parquet is damaged" in run.problems[0]


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"run_id": "beef"}, "belongs to another run"),
        ({"version": schema.FORMAT + 1}, f"newer format {schema.FORMAT + 1}: skipped; upgrade glideslope"),
    ],
)
def test_foreign_and_newer_shards_are_skipped_and_reported(tmp_path: Path, kwargs: dict[str, Any], words: str) -> None:
    write_run(tmp_path, LOSSES)
    write_shards(tmp_path, "steps", {"step": [3], "loss": [9.0]}, sequence=1, **kwargs)
    run = open_run(tmp_path)
    assert run.step_count == 3
    assert len(run.problems) == 1
    assert words in run.problems[0]


def test_a_parquet_file_of_another_program_is_skipped_and_reported(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES)
    pl.DataFrame({"step": [1]}).write_parquet(tmp_path / "steps" / "a00-r000-000001.parquet")
    pl.DataFrame({"step": [1]}).write_parquet(tmp_path / "steps" / "copy of a00.parquet")
    run = open_run(tmp_path)
    assert run.step_count == 3
    assert len(run.problems) == 2
    assert "steps/copy of a00.parquet is not named like a shard: not read." in run.problems


def test_a_column_of_the_wrong_type_is_skipped_and_reported(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES)
    metadata = {
        "glideslope.format": "1",
        "glideslope.run_id": json.loads((tmp_path / "run-a00.json").read_text())["run_id"],
    }
    frame = pl.DataFrame({"step": [3], "loss": ["<script>"]})
    frame.write_parquet(tmp_path / "steps" / "a00-r000-000001.parquet", metadata=metadata)
    run = open_run(tmp_path)
    assert run.step_count == 3
    assert "has a column of the wrong type (loss)" in run.problems[0]


def test_narrower_numbers_are_widened(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES)
    metadata = {
        "glideslope.format": "1",
        "glideslope.run_id": json.loads((tmp_path / "run-a00.json").read_text())["run_id"],
    }
    frame = pl.DataFrame({"step": [3], "loss": [0.5]}, schema={"step": pl.Int32, "loss": pl.Float32})
    frame.write_parquet(tmp_path / "steps" / "a00-r000-000001.parquet", metadata=metadata)
    assert losses(tmp_path)[-1] == (3, 0.5)


def test_gaps_and_leftovers_are_reported(tmp_path: Path) -> None:
    write_run(tmp_path, {"loss": [1.0] * 6}, shards=6)
    for number in (2, 4):
        (tmp_path / "steps" / f"a00-r000-00000{number}.parquet").unlink()
    (tmp_path / "steps" / "a00-r000-000006.parquet.tmp").write_bytes(b"PAR1")
    run = open_run(tmp_path)
    assert run.step_count == 4
    assert [problem.split(":")[0] for problem in run.problems] == [
        "steps/a00-r000-000002.parquet and 1 more of its sequence are missing",
        "steps/a00-r000-000006.parquet.tmp is unfinished (its process ended, or still writes it)",
    ]


def test_end_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    write_run(tmp_path, LOSSES)
    (tmp_path / "end-a00-r000.json").write_text(json.dumps(end_file([0], "sleeping")))
    run = open_run(tmp_path)
    assert run.status == "unfinished"
    assert '"status" should be "completed" or "failed"' in run.problems[0]


# Directories and run files that are none


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is empty"),
        (lambda path: path.write_text("x"), "is a file"),
        (lambda path: (path / "src").mkdir(parents=True), "is not a run (no run-a00.json in it)"),
        (lambda path: (path / "steps").mkdir(parents=True), "has shards but no run-a00.json"),
        (lambda path: write_run(path / "b" / "c", LOSSES), "is not a run itself: did you mean "),
    ],
    ids=["missing", "empty", "file", "other", "shards only", "parent"],
)
def test_not_a_run(tmp_path: Path, make: Any, words: str) -> None:
    make(tmp_path / "x")
    with pytest.raises(RunError) as caught:
        open_run(tmp_path / "x")
    assert str(tmp_path / "x") in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is truncated or not JSON"),
        (json.dumps(run_file())[:100], "is truncated or not JSON"),
        ("[" * 100_000, "is truncated or not JSON"),
        ('{"a":' * 950 + "1" + "}" * 950, "is truncated or not JSON"),
        (b"\xff\xfe\x00", "is truncated or not JSON"),
        ("9" * 10_000, "is truncated or not JSON"),
        ("[]", "holds a list instead of a JSON object"),
        ("{}", 'lacks "format"'),
        ('{"format": "1"}', '"format" should be a whole number, not a string'),
        ('{"format": true}', '"format" should be a whole number, not true or false'),
        ('{"format": 2, "tensors": 5}', "has format 2, and this glideslope reads up to 1: install a newer one"),
        (json.dumps(run_file() | {"run_id": None}), 'lacks "run_id"'),
        (json.dumps(run_file() | {"tensors": {"a": 1}}), '"tensors" should be a list, not an object'),
        (json.dumps(run_file() | {"tensors": [5]}), '"tensors[0]" should be an object, not a whole number'),
        (json.dumps(run_file() | {"tensors": [{"name": ["a"]}]}), '"tensors[0].name" should be a string, not a list'),
        (
            json.dumps(run_file() | {"tensors": [{"name": "a", "shape": [1, "2"]}]}),
            '"tensors[0].shape[1]" should be a whole',
        ),
        (json.dumps(run_file() | {"hparams": "x"}), '"hparams" should be an object'),
        (json.dumps(run_file() | {"rank_count": 1.5}), '"rank_count" should be a whole number, not a number'),
    ],
)
def test_a_bad_run_file_is_one_sentence(tmp_path: Path, content: str | bytes, words: str) -> None:
    write_run(tmp_path, LOSSES)
    path = tmp_path / "run-a00.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RunError) as caught:
        open_run(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_hostile_names_are_kept_as_text(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", "\x1b[31mred", "a\nb", "\ud800"]
    run = open_run(write_run(tmp_path, LOSSES, manifest={"tensors": tensor_entries(names), "host": "\ud800</script>"}))
    assert [tensor.name for tensor in run.tensors] == [*names[:3], "?"]
    str(run.manifest).encode("utf-8")


def test_keys_that_a_recorder_did_not_know_yet_or_any_more(tmp_path: Path) -> None:
    minimal = {"format": 1, "run_id": "x", "attempt": 0, "future": [1]}
    write_run(tmp_path, LOSSES, run_id="x")
    (tmp_path / "run-a00.json").write_text(json.dumps(minimal))
    run = open_run(tmp_path)
    assert (run.step_count, run.tensors, run.manifest.loss, run.manifest.rank_count) == (3, (), None, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(run_file())), value=JSON)
def test_any_value_of_any_key_is_read_or_one_sentence(tmp_path: Path, key: str, value: Any) -> None:
    write_run(tmp_path, LOSSES)
    (tmp_path / "run-a00.json").write_text(json.dumps(run_file() | {key: value}))
    with contextlib.suppress(RunError):
        open_run(tmp_path).frame("steps", "loss")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(-400, -1), byte=st.binary(min_size=1, max_size=8))
def test_any_damage_to_a_footer_is_survived(tmp_path: Path, position: int, byte: bytes) -> None:
    write_run(tmp_path, LOSSES, shards=3)
    path = tmp_path / "steps" / "a00-r000-000001.parquet"
    content = bytearray(path.read_bytes())
    start = max(0, len(content) + position)
    content[start : start + len(byte)] = byte
    path.write_bytes(content)
    run = open_run(tmp_path)
    assert run.step_count in (2, 3) or run.problems


@pytest.mark.parametrize(
    "values",
    [
        [None] * 7 + [1.5, None, math.nan, None, None],
        [None] * 11 + [7.0],
        [None] * 12,
        [1.0] * 12,
    ],
)
def test_a_column_of_few_values_is_what_was_recorded_however_often_it_is_asked_for(
    tmp_path: Path, values: list[float | None]
) -> None:
    run = open_run(
        write_run(tmp_path, {"loss": 1.0, "step": range(12), "grad_norm": values, "loss_count": [None] * 11 + [4]})
    )
    for _ in range(2):
        frame = run.frame("steps", "grad_norm", "loss_count", "optimizer")
        assert frame["grad_norm"].equals(pl.Series("grad_norm", values, dtype=pl.Float64), null_equal=True)
        assert frame["loss_count"].to_list() == [None] * 11 + [4]
        assert frame["optimizer"].null_count() == 12
        assert frame.schema == {
            "step": pl.Int64,
            "grad_norm": pl.Float64,
            "loss_count": pl.Int64,
            "optimizer": pl.Int64,
        }
    assert run.count("steps", "grad_norm") == 12 - values.count(None)


def test_a_run_afresh_reads_the_same_and_holds_nothing(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "r", {"loss": [3.0, 2.0]}))
    run.frame("steps", "loss")
    again = run.afresh()
    assert again.name == run.name
    assert again._series == {}
    assert again.frame("steps", "loss").equals(run.frame("steps", "loss"))


def test_an_excerpt_is_spread_over_the_rows_however_uneven_the_shards_are(tmp_path: Path) -> None:
    sizes, shards = [10] * 100 + [300] * 60, []
    for i, size in enumerate(sizes):
        path = tmp_path / f"{i}"
        path.write_bytes(b"x" * size)
        shards.append(Shard("steps", 0, 0, i, path))
    kept = [shard.sequence for shard in spread(shards, 20)]
    between = [sum(sizes[i:j]) for i, j in pairwise(kept)]
    assert kept[0] == 0
    assert len(kept) == 20
    assert all(600 <= rows <= 1200 for rows in between), "a shard more or less than 950"


def test_an_excerpt_has_the_first_rows_of_each_shard(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, {"loss": [1.0] * 1000}, shards=100))
    rows, whole = run.excerpt("steps", 25, 3)
    steps = rows.select("step").collect()["step"].to_list()
    assert not whole
    assert 20 <= len(steps) / 3 <= 25
    assert steps == [first + i for first in steps[::3] for i in range(3)]
    assert all(first % 10 == 0 for first in steps[::3])


def test_an_excerpt_of_few_shards_is_the_table(tmp_path: Path) -> None:
    for rank in range(3):
        write_run(tmp_path, {"loss": [1.0] * 40}, rank=rank, shards=20)
    run = open_run(tmp_path)
    rows, whole = run.excerpt("steps", 20, 1)
    assert whole
    assert rows.collect().equals(run.written("steps").collect())
    rows, whole = run.excerpt("steps", 10, 1)
    assert not whole
    assert rows.select("step").collect().height == 10, "of one rank"


def test_an_excerpt_leaves_out_what_a_later_attempt_voids(tmp_path: Path) -> None:
    write_run(tmp_path, {"loss": [1.0] * 100}, shards=50, end=None)
    write_run(tmp_path, {"loss": [2.0] * 10}, attempt=1, first_step=40)
    steps = open_run(tmp_path).excerpt("steps", 25, 1)[0].select("step").collect()["step"]
    assert steps.is_sorted()
    assert steps.max() == 40
