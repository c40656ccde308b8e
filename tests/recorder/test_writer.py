"""Flush intervals, and a disk that refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.trainings import read
from torch import nn

from recorder import Recorder
from recorder.directory import RunDirectory
from recorder.writer import flush_interval


def test_flush_intervals() -> None:
    assert [flush_interval(i, 0.0) for i in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert flush_interval(100, 5_000.0) == 50.0
    assert flush_interval(1_000, 1e6) == 300.0


@given(st.integers(0, 10_000), st.floats(0, 1e7))
def test_an_interval_is_between_a_second_and_five_minutes(flushes: int, elapsed: float) -> None:
    assert 1.0 <= flush_interval(flushes, elapsed) <= 300.0


def record(path: Path, steps: int) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(path, model, optimizer) as recorder:
        for _ in range(steps):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(model(torch.randn(4, 4)).square().mean())
            optimizer.step()


def test_shards_carry_the_run_they_belong_to_and_hold_one_row_group(tmp_path: Path) -> None:
    record(tmp_path / "run", 10)
    shards = list((tmp_path / "run").glob("*/*.parquet"))
    assert shards
    for shard in shards:
        file = pq.ParquetFile(shard)
        assert file.metadata.num_row_groups == 1
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
        assert file.schema_arrow.metadata[b"glideslope.format"] == b"1"
        assert len(file.schema_arrow.metadata[b"glideslope.run_id"]) == 32
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_what_a_full_disk_refused_is_written_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, refusals = RunDirectory.write, []

    def full(self: RunDirectory, name: str, content: bytes) -> None:
        if name.endswith(".parquet") and len(refusals) < 2:
            refusals.append(name)
            raise OSError(28, "No space left on device")
        write(self, name, content)

    monkeypatch.setattr(RunDirectory, "write", full)
    monkeypatch.setattr("recorder.writer.FLUSH_SECONDS", (0.05,))
    record(tmp_path / "run", 300)
    assert len(refusals) == 2
    assert read(tmp_path / "run", "steps")["step"].to_list() == list(range(300))
    assert any("No space left on device" in record.message for record in caplog.records)
