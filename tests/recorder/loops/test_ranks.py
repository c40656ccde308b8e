"""Trainings on several ranks: what they recorded, combined, is what one process would have recorded of all samples."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.loops import Moment, one_by_one
from support.ranks import RANKS, STEPS, TRAININGS, batch, classify, mlp
from support.truth import Truth, reasons, truth

from analyzer.run import open_run

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without ranks")


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All trainings, in two processes."""
    root = tmp_path_factory.mktemp("ranks")
    for name in TRAININGS:
        (root / name).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    tests = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "WORLD_SIZE": str(RANKS),
    }
    script = str(tests / "support" / "ranks.py")
    ranks = [
        subprocess.Popen([sys.executable, script, str(root), str(rank), *TRAININGS], env=environment)
        for rank in range(RANKS)
    ]
    try:
        assert [rank.wait(timeout=240) for rank in ranks] == [0] * RANKS
    finally:
        for rank in ranks:
            rank.kill()
    return root


@pytest.mark.parametrize("name", TRAININGS)
def test_every_rank_trains_as_it_would_alone(name: str, flown: Path) -> None:
    assert all(torch.load(flown / name / f"{rank}.pt")["same"] for rank in range(RANKS))
    assert open_run(flown / name / "run").frame("steps", "loss")["step"].to_list() == list(range(STEPS))


def of_all_samples(root: Path, index: int, parts: int) -> Truth:
    """Losses and gradients of the samples of all ranks at one step, their mean being the averaged gradient."""
    states = torch.load(root / "0.pt")["states"]
    model = mlp()
    names = [name for name, _ in model.named_parameters()]
    data = [batch(index, rank, part) for rank in range(RANKS) for part in range(parts)]
    passes: list[Any] = [one_by_one(classify, each) for each in data]
    found = truth(model, Moment(dict(zip(names, states[index], strict=True)), [], [torch.get_rng_state()] * 4, passes))
    return Truth(found.losses / len(passes), [g / len(passes) for g in found.gradients])


@pytest.mark.parametrize(("name", "parts"), [("replicated", 1), ("bucket views", 1), ("accumulated", 2)])
def test_values_combined_are_those_of_all_samples(name: str, parts: int, flown: Path) -> None:
    steps = open_run(flown / name / "run").table("steps").collect().to_dicts()
    states = torch.load(flown / name / "0.pt")["states"]
    for index, row in enumerate(steps):
        found = of_all_samples(flown / name, index, parts)
        same = lambda value: pytest.approx(float(value), rel=1e-9, abs=1e-12)  # noqa: E731
        assert row["batch_size"] == row["individual_count"] == len(found.losses)
        assert (row["loss"], row["loss_var"]) == (same(found.losses.mean()), same(found.losses.var()))
        assert row["grad_norm"] == same(found.mean.norm())
        assert row["grad_var"] == same(found.flat.var(0).sum())
        dots = found.along([g.mean(0) for g in found.gradients])
        assert (row["inner_mean"], row["inner_var"]) == (same(dots.mean()), same(dots.var()))
        if index:
            update = [b - a for a, b in zip(states[index - 1], states[index], strict=True)]
            each = found.along(update)
            assert (row["end_slope"], row["end_slope_var"]) == (same(each.mean()), same(each.var()))
        if index + 1 < len(steps):
            each = found.along([b - a for a, b in zip(states[index], states[index + 1], strict=True)])
            assert (row["start_slope"], row["start_slope_var"]) == (same(each.mean()), same(each.var()))


def test_what_shards_do_not_tell_is_null_with_the_reason(flown: Path) -> None:
    steps = open_run(flown / "sharded" / "run").table("steps").collect()
    assert steps["grad_var"].is_null().all()
    assert steps["start_slope"].is_null().all()
    assert any("steps.grad_var" in reason for reason in reasons(flown / "sharded" / "run"))
