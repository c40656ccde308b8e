"""Runs at a URI."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from support.runs import write_run

from analyzer.run import RunError, open_run

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory(tmp_path: Path) -> str:
    """A run in fsspec's memory, with a checkpoint beside it."""
    local = write_run(tmp_path / "run", {"loss": [2.0, 1.0]}, {"a": {"grad_norm": [1.0, 2.0]}})
    (local / "checkpoint.pt").write_bytes(b"x")
    (local / "steps" / "notes.txt").write_text("x")
    files = fsspec.filesystem("memory")
    files.put(str(local), "/bucket/digits", recursive=True)
    yield "memory://bucket/digits"
    files.rm("/bucket", recursive=True)


def test_a_run_at_a_uri_is_copied_without_what_is_not_its_own(memory: str) -> None:
    run = open_run(memory)
    assert (run.path, run.name, run.step_count) == (memory, "digits", 2)
    assert run.frame("layers", "grad_norm")["grad_norm"].to_list() == [1.0, 2.0]
    copy = Path(run._copy.name)
    names = sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file())
    assert names == [
        "end-a00-r000.json",
        "layers/a00-r000-000000.parquet",
        "run-a00.json",
        "steps/a00-r000-000000.parquet",
    ]
    del run
    gc.collect()
    assert not copy.exists()


def test_a_file_uri_is_read_in_place(tmp_path: Path) -> None:
    local = write_run(tmp_path / "a run", {"loss": [1.0]})
    run = open_run(local.as_uri())
    assert (run.name, run.step_count, run._copy) == ("a run", 1, None)


@pytest.mark.parametrize("uri", ["memory://bucket/nothing", "memory://nowhere", "nonsense://x/y"])
def test_what_cannot_be_fetched_is_one_sentence(memory: str, uri: str) -> None:
    with pytest.raises(RunError) as caught:
        open_run(uri)
    assert str(caught.value).startswith(uri)
    assert "\n" not in str(caught.value)


def test_without_fsspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(RunError, match=r"s3://b/x: .*fsspec.*; install it, or copy the run"):
        open_run("s3://b/x")
