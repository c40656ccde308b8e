"""The benchmarks run: on a small problem, and with a sentence where a device is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parent / "benchmarks"
ARMS = ("economy, every step", "full, every 16")


def run(name: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / name), *options]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


def test_without_cuda_the_gpu_benchmark_says_so() -> None:
    ended = run("gpu.py", CUDA_VISIBLE_DEVICES="")
    assert (ended.returncode, ended.stderr) == (2, "")
    assert re.fullmatch(r"This machine has no CUDA device: nothing was measured .*\n", ended.stdout)


@pytest.mark.parametrize(("script", "options"), [("cost.py", ()), ("gpu.py", ("--device", "cpu"))])
def test_a_small_problem_goes_through(script: str, options: tuple[str, ...]) -> None:
    ended = run(script, "--problem", "mlp", "--rounds", "1", "--window", "32", *options, "--arms", *ARMS)
    assert ended.returncode == 0, ended.stderr
    ratios = {
        name: float(value) for name, value in re.findall(r"^  (\S.*?) {2,}(\d+\.\d+) ", ended.stdout, re.MULTILINE)
    }
    assert list(ratios) == ["plain", *ARMS, "full, a curvature step"]
    assert ratios["plain"] == 1.0
    assert ratios["full, a curvature step"] > ratios["full, every 16"]


def test_memory_is_that_of_each_arm(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs Linux")
    ended = run("memory.py", "--problem", "mlp", "--repeats", "1", "--steps", "4", "--arms", "basic")
    assert ended.returncode == 0, ended.stderr
    (held,) = re.findall(r"basic .* held +(\S+)", ended.stdout)
    assert 109_386 * 4 / 2**20 < float(held) < 1, "a copy of the parameters and little more"


def test_judging_and_reporting_are_measured_apart_and_rule_by_rule(tmp_path: Path) -> None:
    sizes = ("--steps", "1500", "--tensors", "6", "--run", str(tmp_path / "run"), "--rules")
    ended = run("judging.py", *sizes)
    assert ended.returncode == 0, ended.stderr
    rows = {
        name: [float(x) for x in rest.split()]
        for name, rest in re.findall(r"^(\w+) +([\d. ]+)$", ended.stdout, re.MULTILINE)
    }
    assert [len(rows[name]) for name in ("judge", "report")] == [3, 4]
    assert {"NUM001", "RUN001", "open"} <= {
        line.split()[0] for line in ended.stdout.splitlines() if line.startswith("  ")
    }
    steps = list((tmp_path / "run" / "steps").iterdir())
    assert len(steps) > 1, "as many shards as a recorder writes"


def test_resnet_50_is_the_one_that_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from problems import RESNET_50

    with torch.device("meta"):
        model = RESNET_50.model()
        assert model(torch.empty(RESNET_50.shape)).shape == (64, 1000)
    assert sum(p.numel() for p in model.parameters()) == 25_557_032


def test_a_short_window_weighs_curvature_as_256_steps_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from arms import of_turn

    curvature, probe, idle = 50.0, 5.0, 1.0
    first, other = [curvature, *[idle] * 15], [probe, *[idle] * 15]
    long, short = (of_turn("full, every 16", first + other * n) for n in (15, 1))
    assert long["full, every 16"] == pytest.approx((50 + 15 * 5 + 240) / 256)
    assert short == pytest.approx(long)


def test_synchronisations_are_counted_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu

    with gpu.told_of_synchronisations(torch.device("cpu")) as places:
        for _ in range(2):
            warnings.warn("called a synchronizing CUDA operation (Triggered internally at …)", stacklevel=1)
        warnings.warn("something else", stacklevel=1)
    assert len(places) == 2
    assert re.fullmatch(r"tests/test_benchmarks\.py:\d+", places[0])
