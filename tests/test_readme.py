"""What the README says is so: its loop runs as printed, its commands and presets exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from analyzer.config import choose, load
from analyzer.detectors import DETECTORS
from analyzer.outputs import OUTPUTS
from recorder.instruments import PRESETS

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = sorted(set(re.findall(r"glideslope ((?:check|report|nightly|info|rule|export|demo)\b[^#`\n]*)", README)))


def test_the_training_loop_runs_as_printed(tmp_path, monkeypatch):
    (loop,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    model = nn.Linear(4, 3)
    batches = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(5)]
    names = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
        "loss_fn": nn.CrossEntropyLoss(),
        "train_loader": batches,
        "valid_loader": batches,
        "evaluate": lambda model, loader: 0.5,
    }
    exec(loop, names)
    assert list((tmp_path / "runs/digits/steps").glob("*.parquet"))


def test_the_table_of_presets_names_all_of_them():
    section = README.partition("### Presets")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    assert rows == list(PRESETS)


@pytest.mark.parametrize("command", sorted({command.split()[0] for command in COMMANDS}))
def test_the_commands_and_their_options_exist(command):
    asked = subprocess.run([sys.executable, "-m", "analyzer", command, "--help"], capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    options = {option for line in COMMANDS if line.startswith(command) for option in re.findall(r"--[a-z-]+", line)}
    assert {option for option in options if option not in asked.stdout} == set()


def test_the_configuration_is_valid(tmp_path):
    sections = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text("\n".join(sections))
    settings = load(start=tmp_path)
    assert settings.fail_on == "warning"
    assert [rule.code for rule in choose(DETECTORS, settings).detectors if rule.code.startswith("LOS")] == []


def test_the_table_of_formats_names_all_of_them():
    table = README.partition("| `--format` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [output.name for output in OUTPUTS]


def test_the_pictures_exist():
    pictures = re.findall(r'src(?:set)?="([^"]+)"', README)
    assert pictures
    assert [name for name in pictures if not (Path(__file__).parents[1] / name).is_file()] == []
