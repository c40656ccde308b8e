"""What is kept in full: probes, and the steps around an incident."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.trainings import read
from torch import nn

from recorder import Recorder
from recorder.incidents import WINDOW, Watch


def record(path: Path, factors: list[float]) -> None:
    """A training whose loss is multiplied by a factor at each step; nothing moves."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    inputs = torch.randn(8, 4)
    with Recorder(path, model, optimizer, preset="basic", dense_steps=0, strict=True) as recorder:
        for factor in factors:
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(model(inputs).square().mean() * factor)
            optimizer.step()


def kept(path: Path) -> list[int]:
    return sorted(read(path, "layers")["step"].unique().to_list())


def test_only_probes_are_kept_of_a_quiet_run(tmp_path: Path) -> None:
    record(tmp_path / "run", [1.0] * 200)
    assert kept(tmp_path / "run") == list(range(0, 200, 16))
    assert read(tmp_path / "run", "steps")["step"].to_list() == list(range(200))


def test_the_blocks_around_a_jump_are_kept(tmp_path: Path) -> None:
    record(tmp_path / "run", [1.0] * 150 + [1000.0] + [1.0] * 100)
    assert set(range(64, 192)) <= set(kept(tmp_path / "run"))
    assert set(kept(tmp_path / "run")) & set(range(64)) == set(range(0, 64, 16))
    events = read(tmp_path / "run", "events").to_dicts()
    incidents = [(e["step"], json.loads(e["detail"])) for e in events if e["kind"] == "incident"]
    assert incidents == [(150, {"what": "jump", "column": c}) for c in ("loss", "grad_norm")]


def test_a_non_finite_value_is_an_incident_at_its_onset_only(tmp_path: Path) -> None:
    record(tmp_path / "run", [1.0] * 20 + [float("nan")] * 80)
    events = read(tmp_path / "run", "events").to_dicts()
    assert [e["step"] for e in events if e["kind"] == "incident"] == [20, 20]


@given(st.lists(st.floats(0.5, 4.0), min_size=1, max_size=300))
def test_what_scatters_by_less_than_the_factor_is_no_incident(values: list[float]) -> None:
    assert Watch("loss").incidents(range(len(values)), values) == []


def test_a_jump_after_a_short_history_is_seen() -> None:
    values = [1.0] * (WINDOW // 4) + [50.0]
    assert [i.step for i in Watch("loss").incidents(range(len(values)), values)] == [WINDOW // 4]
