"""Real recordings, read back: the two sides agree on more than the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analyzer import derived
from analyzer.run import open_run

torch = pytest.importorskip("torch")

from support.references import VALUES, reference_training  # noqa: E402
from support.trainings import read  # noqa: E402

from recorder import Recorder  # noqa: E402


def train(run_dir: Path, steps: range, *, fail_at: int | None = None, **options: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_fn = torch.nn.CrossEntropyLoss()
    with Recorder(run_dir, model, optimizer, loss_fn, **options) as recorder:
        for index in steps:
            if index == fail_at:
                raise ValueError("out of data")
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(loss_fn(model(torch.randn(16, 8)), torch.randint(0, 4, (16,))))
            optimizer.step()


def test_alpha_is_known_at_every_probe(tmp_path: Path) -> None:
    train(tmp_path, range(31), every=5, dense_steps=3)
    run = open_run(tmp_path)
    steps = run.frame("steps", "probed", "alpha", "alpha_concave")
    known = steps.filter(pl.col("alpha_concave").is_not_null())
    assert known["step"].to_list() == [0, 1, 2, 5, 10, 15, 20, 25]
    assert known.filter(~pl.col("alpha_concave"))["alpha"].is_finite().all()
    assert (run.status, run.problems, run.step_count) == ("completed", (), 31)
    assert run.frame("layers", "update_ratio").filter(pl.col("step") == 25).height == len(run.tensors) == 4


def test_an_attempt_that_failed_and_one_that_resumed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="out of data"):
        train(tmp_path, range(10), fail_at=8)
    failed = open_run(tmp_path)
    assert (failed.status, failed.failure, failed.last_step) == ("failed", "ValueError: out of data", 7)
    train(tmp_path, range(4), resume=True, first_step=6)
    resumed = open_run(tmp_path)
    assert (resumed.status, len(resumed.attempts), resumed.problems) == ("completed", 2, ())
    assert resumed.frame("steps", "loss")["step"].to_list() == list(range(10))


@pytest.mark.parametrize("file", sorted(VALUES.glob("*.json")), ids=lambda file: file.stem)
def test_the_trace_form_of_takeuchis_criterion_equals_cockpits(file: Path, tmp_path: Path) -> None:
    """With the exact trace in place of the estimate. Cockpit adds 1e-7 to it."""
    reference = json.loads(file.read_text())
    reference_training(tmp_path, reference, preset="business", instruments={"hessian-trace": 1})
    values = [reference["values_per_step"][str(step)] for step in range(len(reference["values_per_step"]))]
    traces = pl.Series([sum(each["HessTrace"]) for each in values])
    recorded = read(tmp_path, "steps").with_columns(hess_trace=traces)
    found = derived.with_derived("steps", recorded.lazy()).collect()["tic_trace"].to_list()
    for value, each, trace in zip(found, values, traces, strict=True):
        assert value == (pytest.approx(each["TICTrace"] * (1 + 1e-7 / trace), rel=1e-9) if trace > 0 else None)
