"""However a training ends, what it leaves is readable, complete but for the last moments, and says how it ended."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support import flights
from support.flights import fly

from recorder.writer import flush_interval

ROOT = Path(__file__).parents[2]
SLACK = 1.0
"""Seconds that the writing of a shard may take where many share the machine."""


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    """The rows of all finished shards of a table; every shard must be readable."""
    return [row for shard in sorted((run / table).glob("*.parquet")) for row in pq.read_table(shard).to_pylist()]


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(row["detail"]) for row in rows(run, "events") if row["kind"] == kind]


def end(run: Path) -> dict[str, Any]:
    return json.loads((run / "end-a00-r000.json").read_text())


def steps(run: Path) -> list[int]:
    return [row["step"] for row in rows(run, "steps")]


@contextmanager
def handlers_restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        yield
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def at(step: int, action: Callable[[], object]) -> Callable[[int], object]:
    return lambda index: action() if index == step else None


def script(body: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with `fly` and `run` (the first argument) at hand."""
    start = "import signal, sys\nfrom pathlib import Path\nfrom support.flights import fly\nrun = Path(sys.argv[1])\n"
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    return subprocess.run(
        [sys.executable, "-c", start + body, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_training_that_completes(tmp_path: Path) -> None:
    with handlers_restored():
        fly(tmp_path, 20)
    assert (end(tmp_path)["status"], end(tmp_path)["exception"], end(tmp_path)["last_step"]) == ("completed", None, 19)
    assert steps(tmp_path) == list(range(20))
    assert not list(tmp_path.rglob("*.tmp"))


class OutOfLuckError(Exception):
    pass


def test_an_exception_passes_through_unchanged(tmp_path: Path) -> None:
    error = OutOfLuckError("at step 30")

    def fail() -> None:
        raise error

    with handlers_restored(), pytest.raises(OutOfLuckError) as raised:
        fly(tmp_path, 40, at(30, fail))
    assert raised.value is error
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert (end(tmp_path)["status"], end(tmp_path)["last_step"]) == ("failed", 29)
    assert end(tmp_path)["exception"] == "OutOfLuckError: at step 30"
    assert steps(tmp_path) == list(range(30)), "the step that failed has no row"


def test_the_steps_before_an_exception_are_kept_in_full(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fly(tmp_path, 60, at(50, lambda: 1 / 0))
    kept = {row["step"] for row in rows(tmp_path, "layers")}
    unprobed = {row["step"] for row in rows(tmp_path, "steps") if not row["probed"]}
    assert unprobed & set(range(20, 50)) == unprobed & kept & set(range(20, 50)) != set()
    assert events(tmp_path, "incident")[-1]["what"] == "exception"


def test_the_window_is_64_steps_however_often_was_drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.writer.FLUSH_SECONDS", (0.02,) * 1000)
    with pytest.raises(ZeroDivisionError):
        fly(tmp_path, 200, at(150, lambda: 1 / 0))
    assert set(range(150 - 64, 150)) <= {row["step"] for row in rows(tmp_path, "layers")}


def test_an_exception_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fly(tmp_path, 5, at(0, lambda: 1 / 0))
    assert (end(tmp_path)["status"], end(tmp_path)["steps"], end(tmp_path)["last_step"]) == ("failed", 0, None)
    assert json.loads((tmp_path / "run-a00.json").read_text())["model"] == "Sequential"
    assert steps(tmp_path) == []


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (None, "completed"), (3, "failed")])
def test_leaving_the_program(code: int | None, status: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        fly(tmp_path, 20, at(9, lambda: sys.exit(code)))
    assert end(tmp_path)["status"] == status
    assert steps(tmp_path) == list(range(9))


def test_control_c(tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with handlers_restored(), pytest.raises(KeyboardInterrupt):
        fly(tmp_path, 20, at(9, lambda: signal.raise_signal(signal.SIGINT)))
    assert end(tmp_path)["exception"] == "KeyboardInterrupt"
    assert events(tmp_path, "signal") == [{"signal": "SIGINT"}]
    assert steps(tmp_path) == list(range(9))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_handler_of_the_user_is_called_and_training_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    seen = []
    with handlers_restored():
        mine = signal.signal(number, lambda received, frame: seen.append(received))
        fly(tmp_path, 20, at(9, lambda: signal.raise_signal(number)))
        signal.signal(number, mine)
    assert seen == [number]
    assert end(tmp_path)["status"] == "completed"
    assert events(tmp_path, "signal") == [{"signal": number.name}]
    assert steps(tmp_path) == list(range(20))


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    with handlers_restored():
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        fly(tmp_path, 12, at(9, lambda: signal.raise_signal(signal.SIGTERM)))
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        signal.signal(signal.SIGTERM, before)
    assert end(tmp_path)["status"] == "completed"


def test_a_handler_placed_during_the_run_stays_and_still_reaches_the_first(tmp_path: Path) -> None:
    seen = []

    def place() -> None:
        ours = signal.getsignal(signal.SIGTERM)

        def late(number: int, frame: Any) -> None:
            seen.append("late")
            ours(number, frame)  # type: ignore[operator, misc]

        signal.signal(signal.SIGTERM, late)

    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, lambda number, frame: seen.append("first"))
        fly(tmp_path, 12, at(5, place))
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == ["late", "first"]


def test_a_training_outside_the_main_thread(tmp_path: Path) -> None:
    with handlers_restored():
        thread = threading.Thread(target=fly, args=(tmp_path, 12))
        thread.start()
        thread.join(60)
    assert end(tmp_path)["status"] == "completed"
    assert steps(tmp_path) == list(range(12))


def test_a_recorder_that_is_never_closed_is_closed_at_exit(tmp_path: Path) -> None:
    body = """
from recorder import Recorder
leave = Recorder.__exit__
Recorder.__exit__ = lambda *_: None
fly(run / "good", 12)
fly(run / "bad", 12, lambda index: 1 / (11 - index))
"""
    done = script(body, tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr.splitlines()[-1]
    assert steps(tmp_path / "good") == list(range(12))
    assert end(tmp_path / "bad")["exception"] == "ZeroDivisionError: division by zero"
    assert steps(tmp_path / "bad") == list(range(11))


def test_terminated_in_its_sleep(tmp_path: Path) -> None:
    """Nobody handles SIGTERM: the process ends by it, but what was measured is written first."""
    body = "fly(run / 'run', 100, lambda index: signal.raise_signal(signal.SIGTERM) if index == 40 else None)"
    done = script(body, tmp_path)
    assert done.returncode == -signal.SIGTERM, done.stderr
    run = tmp_path / "run"
    assert end(run)["status"] == "failed"
    assert "SIGTERM" in end(run)["exception"]
    assert events(run, "signal") == [{"signal": "SIGTERM"}]
    assert steps(run) == list(range(40))


@pytest.mark.parametrize("between", ["", "before = signal.signal(signal.SIGTERM, lambda *a: before(*a))"])
def test_terminated_with_several_recorders_open(between: str, tmp_path: Path) -> None:
    """Each is flushed and says why it ended, also where somebody placed a handler after the first was opened."""
    body = f"""
def inner(index):
    if index == 5:
        {between or "pass"}
        fly(run / "b", 40, innermost)

def innermost(index):
    if index == 10:
        fly(run / "c", 40, lambda index: signal.raise_signal(signal.SIGTERM) if index == 20 else None)

fly(run / "a", 40, inner)
"""
    done = script(body, tmp_path)
    assert done.returncode == -signal.SIGTERM, done.stderr
    for name, count in (("a", 5), ("b", 10), ("c", 20)):
        assert "SIGTERM" in end(tmp_path / name)["exception"]
        assert events(tmp_path / name, "signal") == [{"signal": "SIGTERM"}]
        assert steps(tmp_path / name) == list(range(count))


def killed(root: Path, moments: list[float]) -> Iterator[tuple[Path, float, dict[int, float]]]:
    """Trainings killed at these moments: their directory, how long they lived, and the age of each step by then.

    Those that were killed before they began, as on a busy machine, are left out.
    """
    command = [sys.executable, flights.__file__, str(root), str(int(signal.SIGKILL)), *(f"{m:.3f}" for m in moments)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=180)
    for place in range(len(moments)):
        run = root / f"run{place}"
        moment = float(run.with_suffix(".killed").read_text())
        assert run.with_suffix(".status").read_text() == str(-signal.SIGKILL)
        if not (beating := run.with_suffix(".beats")).exists():
            continue
        if beats := [line.split() for line in beating.read_text().splitlines()]:
            yield run, moment - float(beats[0][1]), {int(step): moment - float(time) for step, time in beats[1:]}


def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    chance = random.Random(5)
    kept = []
    for run, lived, ages in killed(tmp_path, [chance.uniform(0.3, 6.5) for _ in range(20)]):
        written = steps(run)
        assert written == list(range(len(written))), "no gap"
        for table in ("layers", "modules", "events", "metrics"):
            rows(run, table)
        shards = len(list(run.glob("steps/*.parquet")))
        lost = max((age for step, age in ages.items() if step >= len(written)), default=0.0)
        longest_step = max(a - b for a, b in itertools.pairwise([lived, *ages.values(), 0.0]))
        assert lost <= flush_interval(shards, lived) + 2 * longest_step + SLACK
        assert not written or json.loads((run / "run-a00.json").read_text())["run_id"]
        assert not (run / "end-a00-r000.json").exists()
        kept.append(len(written))
    assert sum(count > 0 for count in kept) >= 10, "most lived long enough to leave something"


def test_an_unfinished_shard_is_never_under_its_final_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever exists under a shard's name while it is being written can be read: the kernel may stop us anywhere."""
    names = itertools.count()
    replaced = []
    replace = Path.replace

    def checked(self: Path, target: Path | str) -> Path:
        if str(target).endswith(".parquet"):
            assert not Path(target).exists()
            replaced.append(pq.read_table(self).num_rows)
            next(names)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", checked)
    fly(tmp_path, 12)
    assert len(replaced) == len(list(tmp_path.rglob("*.parquet"))) > 0
