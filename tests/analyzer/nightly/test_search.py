from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from support.runs import write_run

from analyzer.config import Settings, load
from analyzer.nightly.search import find_runs, fingerprint, key_of, portable


def test_runs_are_found_at_any_depth_and_nothing_within_them(tmp_path: Path) -> None:
    for name in ("b", "a/x", "a/y/deep", ".hidden/run", "a/y/deep/steps/odd"):
        write_run(tmp_path / name)
    write_run(tmp_path / "site" / "runs" / "copy")
    (tmp_path / "empty" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = find_runs(tmp_path, tmp_path / "site")
    assert [run.as_posix() for run in found.runs] == [".hidden/run", "a/x", "a/y/deep", "b"]
    assert found.closed == ()


def test_a_root_may_be_a_run_itself(tmp_path: Path) -> None:
    write_run(tmp_path / "only")
    assert find_runs(tmp_path / "only", tmp_path / "site").runs == (Path(),)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "closed").mkdir(mode=0)
    assert find_runs(tmp_path, tmp_path / "site").closed == (Path("closed"),)


def test_the_fingerprint_follows_the_files_of_the_run_and_no_others(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"loss": [2.0, 1.0]})
    before = fingerprint(run, "key")
    (run / "report.html").write_text("x")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "a.pt").write_text("x")
    assert fingerprint(run, "key") == before
    assert fingerprint(run, "another key") != before
    for change in (
        lambda: (run / "end-a00-r000.json").unlink(),
        lambda: os.utime(run / "run-a00.json", (1, 1)),
        lambda: (run / "steps" / "a00-r000-000001.parquet.tmp").write_text(""),
        lambda: (run / "steps" / "a00-r000-000001.parquet.tmp").write_text("x"),
    ):
        change()
        after = fingerprint(run, "key")
        assert after != before
        before = after


def test_the_key_follows_the_program_and_the_configuration_wherever_that_stands(tmp_path: Path) -> None:
    text = 'ignore = ["LOS"]\n[rules.GRD001]\nseverity = "note"\n'
    (tmp_path / "a.toml").write_text(text)
    (tmp_path / "b.toml").write_text(text)
    one, other = load(tmp_path / "a.toml"), load(tmp_path / "b.toml")
    assert key_of("glideslope 1", one) == key_of("glideslope 1", other)
    assert key_of("glideslope 2", one) != key_of("glideslope 1", one)
    assert key_of("glideslope 1", Settings()) != key_of("glideslope 1", one)


def test_settings_can_be_sent_to_another_process(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[rules.GRD001]\nseverity = "note"\n')
    sent = portable(load(tmp_path / "a.toml"))
    assert pickle.loads(pickle.dumps(sent)) == sent
    assert sent.rules == {"GRD001": {"severity": "note"}}
