"""Runs at a URI."""

from __future__ import annotations

import gc
import sys
import tomllib
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


INSTALL = {
    "s3": "reading s3:// needs s3fs: pip install 'glideslope[s3]', or copy the run to this machine.",
    "gs": "reading gs:// needs gcsfs: pip install 'gcsfs', or copy the run to this machine.",
    "abfs": "reading abfs:// needs adlfs: pip install 'adlfs', or copy the run to this machine.",
    "sftp": "install it, or copy the run to this machine.",
}


NEEDED = [("s3", "s3fs"), ("gs", "gcsfs"), ("abfs", "adlfs"), ("sftp", "paramiko")]


@pytest.mark.parametrize(("scheme", "missing"), [*NEEDED, *((scheme, "fsspec") for scheme, _ in NEEDED)])
def test_a_missing_package_is_named_with_what_to_install(
    scheme: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(RunError) as caught:
        open_run(f"{scheme}://bucket/x")
    assert str(caught.value).startswith(f"{scheme}://bucket/x: ")
    assert str(caught.value).endswith(INSTALL[scheme])


def test_the_extra_that_the_error_names_exists() -> None:
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert any(requirement.startswith("s3fs") for requirement in extras["s3"])
