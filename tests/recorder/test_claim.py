"""Two writers never share an attempt and rank, and what a dead one leaves behind is in nobody's way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from support.flights import fly

from recorder import schema
from recorder.attempt import admit
from recorder.claim import after, exactly
from recorder.directory import RunDirectory, RunExistsError

ROOT = Path(__file__).parents[2]
START = """
import os, signal, sys
from pathlib import Path
from support.flights import fly
run = Path(sys.argv[1])
"""


def start(body: str, run: Path) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", START + body, str(run)], env=environment, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def claims(run: Path) -> list[str]:
    return sorted(path.name for path in run.iterdir() if schema.CLAIM_FILE.fullmatch(path.name))


def steps(run: Path, attempt: int = 0) -> list[int]:
    shards = sorted((run / "steps").glob(f"a{attempt:02}-*.parquet"))
    return [step for shard in shards for step in pq.read_table(shard)["step"].to_pylist()]


def test_of_processes_that_begin_at_once_one_records(tmp_path: Path) -> None:
    """Nobody launched them as ranks of one training, so all take themselves for rank 0."""
    body = "print('ready', flush=True); sys.stdin.readline(); fly(run, 40)"
    processes = [start(body, tmp_path) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    outcomes = [process.communicate("go\n", timeout=120) for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 1, 1]
    for process, (_, errors) in zip(processes, outcomes, strict=True):
        if process.returncode:
            last = errors.splitlines()[-1]
            assert last.startswith("recorder.directory.RunExistsError: ")
            assert str(tmp_path) in last
            assert "choose another directory, or pass resume=True" in last
    assert steps(tmp_path) == list(range(40))
    assert claims(tmp_path) == []


def test_killed_at_the_first_step_and_started_again(tmp_path: Path) -> None:
    """Nothing but the claim is left: the next start needs no `resume`."""
    process = start("fly(run, 10, lambda index: os.kill(os.getpid(), signal.SIGKILL))", tmp_path)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == claims(tmp_path) == ["claim-a00-r000.json"]
    fly(tmp_path, 12)
    assert steps(tmp_path, 1) == list(range(12))


def left_behind(run: Path, content: bytes, attempt: int = 0) -> None:
    run.mkdir(exist_ok=True)
    (run / schema.claim_file_name(attempt, 0)).write_bytes(content)


STANDING = {
    "elsewhere": json.dumps({"host": "another-node", "pid": 7}).encode(),
    "alive": json.dumps({"host": socket.gethostname(), "pid": os.getppid()}).encode(),
    "cut short": b"",
    "no object": b"[1, 2]",
    "odd": json.dumps({"host": 3, "pid": "x"}).encode(),
}


@pytest.mark.parametrize("content", STANDING.values(), ids=list(STANDING))
def test_a_claim_of_which_nothing_is_known_is_respected_but_resume_goes_on(content: bytes, tmp_path: Path) -> None:
    left_behind(tmp_path, content)
    with pytest.raises(RunExistsError, match=r"is being written by .*resume=True") as refused:
        fly(tmp_path, 3)
    assert str(tmp_path) in str(refused.value)
    fly(tmp_path, 3, resume=True)
    assert (steps(tmp_path), steps(tmp_path, 1)) == ([], [0, 1, 2])


def test_the_process_number_of_a_dead_one_that_we_have_now(tmp_path: Path) -> None:
    """As in a container, where the training has the same number each time."""
    left_behind(tmp_path, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
    fly(tmp_path, 3)
    assert steps(tmp_path, 1) == [0, 1, 2]


def test_two_recorders_of_one_process(tmp_path: Path) -> None:
    def second(index: int) -> None:
        with pytest.raises(RunExistsError, match="another recorder of this process"):
            fly(tmp_path, 3)

    fly(tmp_path, 1, second)
    assert steps(tmp_path) == [0]


def test_a_start_that_fails_leaves_no_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("recorder.recorder.Outlet", fail)
        with pytest.raises(ZeroDivisionError):
            fly(tmp_path, 3)
    fly(tmp_path, 3)
    assert steps(tmp_path) == [0, 1, 2]


def test_ranks_that_no_process_group_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher said who they are, in whatever order they come; each is one writer."""
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in (2, 0, 1):
        monkeypatch.setenv("RANK", str(rank))
        attempt, _ = admit(RunDirectory(tmp_path), False, None)
        assert (attempt.number, attempt.rank, attempt.rank_count) == (0, rank, 3)
    assert claims(tmp_path) == [f"claim-a00-r00{rank}.json" for rank in range(3)]
    with pytest.raises(RunExistsError):
        admit(RunDirectory(tmp_path), False, None)
    assert admit(RunDirectory(tmp_path), True, None)[0].number == 1


def test_resuming_together_makes_an_attempt_each(tmp_path: Path) -> None:
    barrier = Barrier(8)

    def resume(_: int) -> int:
        barrier.wait()
        return after(RunDirectory(tmp_path), -1, 0, others=True).attempt

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(resume, range(8))) == list(range(8))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An object store: files exist as soon as they were written whole, and writing over one is no error."""
    files = pyarrow.fs._MockFileSystem()
    by_uri = SimpleNamespace(from_uri=lambda uri: (files, uri.partition("://")[2]))
    monkeypatch.setattr(pyarrow.fs, "FileSystem", by_uri)
    monkeypatch.setattr("recorder.directory.SETTLING", 0.3)
    return files


def test_an_object_store_has_one_writer_too(store: Any) -> None:
    barrier = Barrier(4)

    def begin(_: int) -> str:
        barrier.wait()
        try:
            exactly(RunDirectory("s3://bucket/run"), 0, 0)
        except RunExistsError as refused:
            return str(refused)
        return "began"

    with ThreadPoolExecutor(4) as pool:
        outcomes = sorted(pool.map(begin, range(4)))
    assert outcomes.count("began") == 1
    assert all("s3://bucket/run" in sentence and "resume=True" in sentence for sentence in outcomes[1:])


def test_a_run_in_an_object_store_lets_go_at_its_end(store: Any) -> None:
    fly("s3://bucket/run", 3)  # type: ignore[arg-type]
    names = RunDirectory("s3://bucket/run").names()
    assert "run-a00.json" in names
    assert not [name for name in names if name.startswith("claim")]
    with pytest.raises(RunExistsError, match="holds a run already"):
        fly("s3://bucket/run", 3)  # type: ignore[arg-type]


def test_a_place_that_cannot_be_a_run_directory_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("gone")
    for where, kind, words in (
        (tmp_path / "file", NotADirectoryError, "file is a file: choose another name"),
        (tmp_path / "link", FileNotFoundError, "link is a link to nowhere: mend it"),
        ("", ValueError, "run_dir is empty: name a directory"),
        ("foo://x/y", ValueError, r"pyarrow cannot write to foo://x/y \(.*foo.*\): .*copy it"),
        ("https://x/y", ValueError, r"pyarrow cannot write to https://x/y \(.*\): .*copy it"),
        ("abfs://a/b", ValueError, r"pyarrow cannot write to abfs://a/b \(.*\): .*copy it"),
        ("hdfs://a/b", ValueError, r"pyarrow cannot write to hdfs://a/b \(.*\): .*copy it"),
    ):
        with pytest.raises(kind, match=words):
            fly(where, 1)  # type: ignore[arg-type]
