"""RUN003."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.runs import write_run

from analyzer.detectors.shards_missing import ShardsMissing
from analyzer.findings import Finding
from analyzer.run import open_run

RULE = ShardsMissing()


def written(path: Path, **options: Any) -> Path:
    return write_run(path, {"loss": [1.0] * 40}, shards=4, **options)


def found(path: Path) -> list[Finding]:
    return list(RULE.detect(open_run(path)))


def test_a_gap_in_the_sequence(tmp_path: Path) -> None:
    (written(tmp_path) / "steps" / "a00-r000-000001.parquet").unlink()
    (finding,) = found(tmp_path)
    assert finding.severity == "warning"
    assert "a00-r000-000001" in finding.message


def test_the_last_shard(tmp_path: Path) -> None:
    """It leaves no gap, but the end file knows."""
    (written(tmp_path) / "steps" / "a00-r000-000003.parquet").unlink()
    (finding,) = found(tmp_path)
    assert "ended after step 39" in finding.message
    assert "end at step 29" in finding.message


def test_a_torn_shard(tmp_path: Path) -> None:
    (written(tmp_path) / "steps" / "a00-r000-000002.parquet").write_bytes(b"PAR1")
    (finding,) = found(tmp_path)
    assert "torn" in finding.message


def test_a_rank_that_is_missing(tmp_path: Path) -> None:
    (finding,) = found(written(tmp_path, manifest={"rank_count": 2}))
    assert "1 of 2 ranks" in finding.message


def test_what_a_killed_run_was_writing_is_silent(tmp_path: Path) -> None:
    (written(tmp_path, end=None) / "steps" / "a00-r000-000004.parquet.tmp").write_bytes(b"PAR1")
    assert found(tmp_path) == []


def test_a_whole_run_is_silent(tmp_path: Path) -> None:
    assert found(written(tmp_path)) == []


def test_a_run_that_was_resumed_is_silent(tmp_path: Path) -> None:
    written(tmp_path)
    write_run(tmp_path, {"loss": [1.0] * 5}, attempt=1, first_step=20)
    assert found(tmp_path) == []


def test_a_run_without_steps_is_silent(tmp_path: Path) -> None:
    assert found(write_run(tmp_path, {})) == []
