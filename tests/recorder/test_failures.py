"""What goes wrong inside the recorder is recorded, and never the reason that a training ends or changes."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from recorder import Recorder
from recorder.instruments import INSTRUMENTS, Instrument
from recorder.moments import MOMENTS

STEPS = 12
EVERYTHING: dict[str, Any] = {"preset": "full", "instruments": {kind.name: 1 for kind in INSTRUMENTS if kind.sparse}}
"""Every instrument, at every step."""


def fly(where: Path | None, **options: Any) -> tuple[list[bytes], nn.Module]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    options = {**EVERYTHING, **options}
    with Recorder(where, model, optimizer, loss_fn, **options) if where else nullcontext() as recorder:
        for _ in range(STEPS):
            x = torch.randn(6, 4)
            optimizer.zero_grad()
            with recorder.step() if recorder else nullcontext() as step:
                loss = loss_fn(model(x), x[:, :3].argmax(1))
                step.backward(loss) if step else loss.backward()
            optimizer.step()
    return [tensor.detach().numpy().tobytes() for tensor in model.state_dict().values()], model


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    return [row for shard in sorted((run / table).glob("*.parquet")) for row in pq.read_table(shard).to_pylist()]


def errors(run: Path) -> list[dict[str, Any]]:
    return [json.loads(row["detail"]) for row in rows(run, "events") if row["kind"] == "error"]


class Broken(Exception):
    pass


def breaks(*_: object) -> None:
    raise Broken("inside")


def overrides(kind: type[Instrument], moment: str) -> bool:
    return getattr(kind, moment) is not getattr(Instrument, moment)


CASES = [(kind, moment) for kind in INSTRUMENTS for moment in MOMENTS if overrides(kind, moment)]


@pytest.mark.parametrize(("kind", "moment"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_failing_instrument_is_switched_off(
    kind: type[Instrument],
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = getattr(kind, moment)
    calls = []

    def sometimes(self: Instrument, step: Any) -> None:
        calls.append(step.index)
        whole(self, step)
        if step.index >= 4:
            raise Broken("inside")

    monkeypatch.setattr(kind, moment, sometimes)
    with caplog.at_level(logging.WARNING, "glideslope"):
        weights, model = fly(tmp_path / "run")
    assert weights == fly(None)[0]
    assert errors(tmp_path / "run") == [{"instrument": kind.name, "exception": "Broken: inside"}]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert set(calls) == {0, 1, 2, 3, 4}, "not called again"
    assert [row["step"] for row in rows(tmp_path / "run", "steps")] == list(range(STEPS))
    assert not [m for m in model.modules() for name in vars(m) if "_hooks" in name and getattr(m, name)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_strict_raises(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = next(kind for kind, defined in CASES if defined == moment)
    monkeypatch.setattr(kind, moment, breaks)
    with pytest.raises(Broken):
        fly(tmp_path / "run", strict=True)


def test_every_instrument_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, moment in CASES:
        monkeypatch.setattr(kind, moment, breaks)
    assert fly(tmp_path / "run")[0] == fly(None)[0]
    assert {error["instrument"] for error in errors(tmp_path / "run")} == {kind.name for kind in INSTRUMENTS}
    found = rows(tmp_path / "run", "steps")
    assert len(found) == STEPS
    assert all(row["loss"] > 0 and row["lr"] == [0.1] for row in found)


@pytest.mark.parametrize(
    "target",
    [
        "recorder.forward.ForwardWatch.describe",
        "recorder.forward.ForwardWatch.enter",
        "recorder.outlet.Outlet.drain",
        "recorder.recorder.run_file",
        "recorder.recorder.end_file",
        "recorder.writer.Writer.close",
        "recorder.window.Window.take",
        "recorder.directory.RunDirectory.write",
    ],
)
def test_broken_machinery_does_not_stop_a_training(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, breaks)
    weights, model = fly(tmp_path / "run")
    assert weights == fly(None)[0]
    assert not [m for m in model.modules() for name in vars(m) if "_hooks" in name and getattr(m, name)]


def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from recorder.directory import RunDirectory

    write = RunDirectory.write
    refused = []

    def full(self: RunDirectory, name: str, content: bytes) -> None:
        if len(refused) < 20:
            refused.append(name)
            raise OSError(28, "No space left on device")
        write(self, name, content)

    monkeypatch.setattr(RunDirectory, "write", full)
    monkeypatch.setattr("recorder.writer.FLUSH_SECONDS", (0.01,) * 10_000)
    monkeypatch.setattr(__name__ + ".STEPS", 300)
    fly(tmp_path / "run")
    assert len(refused) == 20
    assert [row["step"] for row in rows(tmp_path / "run", "steps")] == list(range(300))
    assert (tmp_path / "run" / "run-a00.json").exists()
