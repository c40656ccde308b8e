from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from recorder.demo import DESCRIPTIONS, trainings
from recorder.demo.__main__ import main
from recorder.demo.data import BATCH_SIZE, digits


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch):
    def call(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["recorder.demo", *map(str, arguments)])
        try:
            return main()
        except SystemExit as stop:  # argparse
            return int(stop.code or 0)

    return call


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "EPOCHS", 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)


def test_list_names_every_training_with_a_description(demo, capsys):
    assert demo("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert dict(line.split("\t") for line in lines) == dict(DESCRIPTIONS)
    assert list(DESCRIPTIONS) == list(trainings.TRAININGS)


def test_list_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; from recorder.demo.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", code, "--list"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("healthy\t")


def test_an_unknown_name_is_answered_with_the_nearest(demo, capsys, tmp_path):
    assert demo("helthy", tmp_path) == 2
    assert 'did you mean "healthy"?' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [(), ("healthy",)])
def test_a_missing_argument_is_named(demo, capsys, arguments):
    assert demo(*arguments) == 2
    assert "the name of a training and a directory" in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_command_that_brings_it(demo, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert demo("healthy", tmp_path) == 2
    assert "needs scikit-learn: pip install 'glideslope[demo]'" in capsys.readouterr().err


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_training_records_its_run(demo, capsys, tmp_path, name):
    assert demo(name, tmp_path, "--seed", 3) == 0
    run = tmp_path / name
    assert f"{run}: validation accuracy 0." in capsys.readouterr().out
    assert pq.read_table(run / "steps").num_rows == 2 * 22
    assert set(pq.read_table(run / "metrics", columns=["name"])["name"].to_pylist()) == {"loss", "accuracy"}


@pytest.mark.usefixtures("short")
def test_a_directory_that_holds_a_run_is_refused(demo, capsys, tmp_path):
    assert demo("vanishing-gradients", tmp_path) == 0
    before = sorted(tmp_path.rglob("*"))
    assert demo("vanishing-gradients", tmp_path) == 2
    assert str(tmp_path / "vanishing-gradients") in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("short")
def test_a_seed_repeats_the_training(tmp_path):
    losses = []
    for directory, seed in (("a", 1), ("b", 1), ("c", 2)):
        trainings.record("healthy", tmp_path / directory, seed)
        losses.append(pq.read_table(tmp_path / directory / "steps", columns=["loss"])["loss"].to_pylist())
    assert losses[0] == losses[1] != losses[2]


def test_the_digits_are_split_and_scaled_by_the_training_share():
    train, valid = digits(seed=0)
    images = torch.cat([inputs for inputs, _ in train])
    assert images.shape == (22 * BATCH_SIZE, 1, 8, 8)
    assert images.mean().abs() < 0.01
    assert (images.std() - 1).abs() < 0.01
    ((valid_images, valid_targets),) = valid
    assert len(valid_images) == 360
    assert set(valid_targets.tolist()) == set(range(10))


def test_the_module_runs_as_a_command(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "recorder.demo", "healthy", "runs"], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    accuracy = float(ended.stdout.split()[-1])
    assert accuracy > 0.95
    assert Path(tmp_path, "runs/healthy/end-a00-r000.json").exists()
