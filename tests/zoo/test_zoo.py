from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from zoo import record as record_command
from zoo.catalogue import PARTS, TUNING
from zoo.labels import Harm, harm, label, read_outcomes
from zoo.program import EXEMPT, KINDS, Program, Unrecorded, Variant

from analyzer.detectors import DETECTORS
from analyzer.run import open_run
from recorder import Recorder

PROGRAMS = [program for programs in PARTS.values() for program in programs]
VARIANTS = [pytest.param(p, v, id=f"{p.name}/{v.name}") for p in PROGRAMS for v in p.variants]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Enough(Exception):
    """A test has seen enough steps."""


class ShortRecorder(Recorder):
    steps = 3

    def step(self) -> Any:
        if self.steps == 0:
            raise Enough
        self.steps -= 1
        return super().step()


def test_names_are_unique_and_make_directories():
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    for program in PROGRAMS:
        names = [program.name, *(variant.name for variant in program.variants)]
        assert len(set(names[1:])) == len(program.variants), program.name
        assert all(Path(name).parts == (name,) for name in names), program.name


@pytest.mark.parametrize(("program", "variant"), VARIANTS)
def test_what_is_faulty_has_a_known_kind_and_a_healthy_twin(program, variant):
    if variant.fault is None:
        assert variant.twin is None
    else:
        assert variant.fault in KINDS
        assert program.variant(variant.twin).fault is None


@pytest.mark.parametrize("part", [part for part, programs in PARTS.items() if programs])
def test_there_is_enough_to_judge_by(part):
    variants = [variant for program in PARTS[part] for variant in program.variants]
    faults = [variant.fault for variant in variants if variant.fault is not None]
    assert len(faults) >= 20
    assert len(variants) - len(faults) >= 15


def test_the_tuning_part_has_most_kinds():
    assert len({variant.fault for program in TUNING for variant in program.variants} - {None}) >= 25


def test_kinds_name_each_rule_once_at_most_and_every_rule():
    codes = [code for named in KINDS.values() for code in named]
    assert {detector.code for detector in DETECTORS} <= set(codes)
    assert set(KINDS) >= EXEMPT


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_few_steps_are_recorded(program, tmp_path):
    def record(model: nn.Module, optimizer: Any, loss_fn: object | None = None, **options: Any) -> Recorder:
        options = {"preset": "basic", "strict": True} | options
        return ShortRecorder(tmp_path / "run", model, optimizer, loss_fn, **options)

    with pytest.raises(Enough):
        program.train(record, 0, **program.variants[0].change)
    run = open_run(tmp_path / "run")
    assert run.step_count == ShortRecorder.steps
    assert run.has("steps", "loss")
    assert run.has("layers", "grad_norm")


@pytest.mark.parametrize("part", [part for part, programs in PARTS.items() if programs])
def test_measured_outcomes_are_of_variants_and_of_ten_seeds(part):
    named = {(program.name, variant.name) for program in PARTS[part] for variant in program.variants}
    outcomes = read_outcomes(part)
    assert set(outcomes) == named
    assert {len(values) for values in outcomes.values()} == {10}


def test_harm_is_what_the_seeds_agree_on():
    good = [0.90, 0.91, 0.92, 0.93, 0.94]
    assert harm([0.80, 0.81, 0.82, 0.80, 0.79], good).shows
    assert harm([float("nan")] * 5, good).shows
    assert harm([float("nan")] * 4 + [0.9], good).shows
    assert not harm(good, good).shows
    assert not harm([0.97, 0.98, 0.97, 0.96, 0.97], good).shows
    assert not harm([0.89, 0.95, 0.90, 0.94, 0.92], good).shows
    assert harm([1.0, 1.0], [1.0, 1.0]) == Harm(1.0, 0.0)


def test_labels_follow_from_outcomes():
    healthy, worse = Variant("healthy"), Variant("worse", {}, "rate-too-large", "healthy")
    leaked = Variant("leaked", {}, "leaked-answer", "healthy")
    program = Program("toy", train_toy, (healthy, worse, leaked))
    outcomes = {
        ("toy", "healthy"): [3.0, 3.1, 3.2],
        ("toy", "worse"): [1.0, 1.1, 1.2],
        ("toy", "leaked"): [9.0, 9.1, 9.2],
    }
    assert [label(program, v, outcomes)[0] for v in program.variants] == ["healthy", "faulty", "exempt"]
    assert label(program, worse, outcomes | {("toy", "worse"): [3.0, 3.2, 3.3]})[0] == "benign"


def train_toy(record: Any, seed: int, ends: str = "well") -> float:
    torch.manual_seed(seed)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(model, optimizer) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(model(torch.ones(4, 2)).square().mean())
            optimizer.step()
        if ends == "raising":
            raise RuntimeError("shapes do not match")
        if ends == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    return 0.5 + seed


TOY = Program(
    "toy",
    train_toy,
    (
        Variant("well"),
        Variant("raising", {"ends": "raising"}, "wiring", "well"),
        Variant("killed", {"ends": "killed"}, "killed", "well"),
    ),
)


@pytest.fixture
def toy(monkeypatch):
    def make(*variants: Variant) -> None:
        programs = (Program("toy", train_toy, variants),)
        monkeypatch.setattr(record_command, "PARTS", {"tuning": programs})

    make(*TOY.variants)
    return make


def test_recording_keeps_going_whatever_becomes_of_a_run(toy, tmp_path, capsys):
    assert record_command.main(["--seeds", "2", "--preset", "basic", "-o", str(tmp_path)]) == 0
    assert {name.relative_to(tmp_path).as_posix() for name in tmp_path.glob("*/*/*")} == {
        f"toy/{variant.name}/seed-{seed}{end}" for variant in TOY.variants for seed in (0, 1) for end in ("", ".json")
    }
    assert open_run(tmp_path / "toy/well/seed-1").status == "completed"
    assert open_run(tmp_path / "toy/raising/seed-0").status == "failed"
    ended = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("*/*/seed-1.json")}
    assert ended["well"]["outcome"] == 1.5
    assert ended["raising"]["error"] == "RuntimeError: shapes do not match"
    assert (ended["killed"]["outcome"], ended["killed"]["error"]) == (None, None)
    assert "toy/killed seed 1: killed" in capsys.readouterr().out


def test_what_is_recorded_is_not_recorded_again(toy, tmp_path, capsys):
    arguments = ["--seeds", "1", "--preset", "basic", "-o", str(tmp_path)]
    record_command.main([*arguments, "--only", "toy/well"])
    capsys.readouterr()
    record_command.main(arguments)
    assert "toy/well" not in capsys.readouterr().out
    toy(Variant("well", {"ends": "better"}))
    record_command.main(arguments)
    assert "toy/well" in capsys.readouterr().out  # it has other arguments now


def test_a_healthy_run_that_fails_is_told(toy, tmp_path, capsys):
    toy(Variant("well", {"ends": "raising"}))
    assert record_command.main(["--seeds", "1", "-o", str(tmp_path)]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_an_unknown_name_is_refused(toy, tmp_path, capsys):
    assert record_command.main(["--only", "toy/best", "-o", str(tmp_path)]) == 2
    assert "toy/best" in capsys.readouterr().err


def test_the_stand_in_differentiates_as_the_recorder_does():
    model = nn.Linear(2, 1)
    with Unrecorded().step() as step:
        step.backward(model(torch.ones(4, 2)).squeeze(1))
    assert torch.equal(model.bias.grad, torch.ones(1))
