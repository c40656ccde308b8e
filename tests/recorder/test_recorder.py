"""The Recorder's public interface: admission, life, logging, and what it says to misuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from support.trainings import read, train
from torch import nn

from recorder import Recorder, schema
from recorder.directory import RunExistsError


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(8, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator)) for _ in range(count)
    ]


def test_tables_have_exactly_the_columns_of_the_schema(tmp_path: Path) -> None:
    train(tmp_path / "run", model(), batches(3), nn.CrossEntropyLoss())
    for name in ("steps", "layers", "events"):
        assert read(tmp_path / "run", name).columns == list(schema.TABLES[name].columns)


def test_the_run_file_describes_itself(tmp_path: Path) -> None:
    train(tmp_path / "run", model(), batches(3), nn.CrossEntropyLoss(), hparams={"width": 5}, target={"accuracy": 0.9})
    run = json.loads((tmp_path / "run" / "run-a00.json").read_text())
    assert run["format"] == schema.FORMAT
    assert [t["name"] for t in run["tensors"]] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert [t["group"] for t in run["tensors"]] == [0, 0, 0, 0]
    assert run["groups"][0]["type"] == "SGD"
    assert run["parameters"] == 53
    assert run["hparams"] == {"width": 5}
    assert run["target"] == {"accuracy": 0.9}
    assert run["loss"] == {"type": "CrossEntropyLoss", "reduction": "mean"}
    for instrument in run["instruments"]:
        for column in instrument["columns"]:
            assert column["description"] == schema.TABLES[column["table"]][column["column"]].description
    end = json.loads((tmp_path / "run" / "end-a00-r000.json").read_text())
    assert (end["status"], end["steps"], end["last_step"]) == ("completed", 3, 2)


def test_the_run_file_says_what_is_dropped(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.3), nn.Dropout(0.0), nn.Linear(5, 3))
    train(tmp_path / "run", net, batches(2), nn.CrossEntropyLoss())
    run = json.loads((tmp_path / "run" / "run-a00.json").read_text())
    assert {module["name"]: module.get("dropout") for module in run["modules"]} == {
        "": None, "0": None, "1": 0.3, "2": None, "3": None,
    }  # fmt: skip


def test_tensors_stand_in_forward_order(tmp_path: Path) -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.first = nn.Linear(5, 3), nn.Linear(6, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.first(x))

    train(tmp_path / "run", Backwards(), batches(2), nn.CrossEntropyLoss())
    run = json.loads((tmp_path / "run" / "run-a00.json").read_text())
    assert [t["name"] for t in run["tensors"]] == ["first.weight", "first.bias", "last.weight", "last.bias"]


def test_a_directory_with_a_run_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "run", model(), batches(2), nn.CrossEntropyLoss())
    before = sorted(p.name for p in (tmp_path / "run").rglob("*"))
    with pytest.raises(RunExistsError, match=r"holds a run already.*resume=True"):
        train(tmp_path / "run", model(), batches(2), nn.CrossEntropyLoss())
    assert sorted(p.name for p in (tmp_path / "run").rglob("*")) == before


def test_resuming_begins_an_attempt_after_the_last_step_of_the_same_run(tmp_path: Path) -> None:
    train(tmp_path / "run", model(), batches(4), nn.CrossEntropyLoss())
    train(tmp_path / "run", model(), batches(3), nn.CrossEntropyLoss(), resume=True)
    first, second = (json.loads((tmp_path / "run" / f"run-a0{i}.json").read_text()) for i in (0, 1))
    assert first["run_id"] == second["run_id"]
    assert second["first_step"] == 4
    assert read(tmp_path / "run", "steps")["step"].to_list() == list(range(7))


def test_resuming_an_empty_directory_begins_at_zero(tmp_path: Path) -> None:
    train(tmp_path / "run", model(), batches(2), nn.CrossEntropyLoss(), resume=True)
    assert read(tmp_path / "run", "steps")["step"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"preset": "ecomony"}, "preset must be one of basic, economy"),
        ({"every": 0}, "every must be at least 1"),
        ({"mode": "test"}, "mode must be one of train, overfit-batch"),
    ],
)
def test_bad_settings_are_refused_at_once(settings: dict[str, object], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        train(tmp_path / "run", model(), batches(1), nn.CrossEntropyLoss(), **settings)
    assert not (tmp_path / "run").exists()


def test_a_model_and_an_optimizer_are_asked_for(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD(model().parameters(), lr=0.1)
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not str"):
        Recorder(tmp_path, "model", optimizer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"optimizer must be a torch\.optim\.Optimizer or several, not Linear"):
        Recorder(tmp_path, model(), [nn.Linear(1, 1)])  # type: ignore[list-item]


def test_a_recorder_that_does_not_run_says_so(tmp_path: Path) -> None:
    net = model()
    recorder = Recorder(tmp_path / "run", net, torch.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(RuntimeError, match="does not run"):
        recorder.step()
    with pytest.raises(RuntimeError, match="does not run"):
        recorder.log("train", loss=1.0)
    recorder.start()
    recorder.close()
    recorder.close()
    with pytest.raises(RuntimeError, match="make a new one"):
        recorder.start()


def test_metrics_are_logged_at_the_present_step_or_at_a_given_one(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss()
    with Recorder(tmp_path / "run", net, optimizer, loss_fn, strict=True) as recorder:
        for inputs, targets in batches(3):
            with recorder.step() as step:
                step.backward(loss_fn(net(inputs), targets))
            optimizer.step()
        recorder.log("valid", accuracy=torch.tensor([0.5]), loss=1.25)
        recorder.log("test", step=1, epoch=0.5, accuracy=float("nan"))
    rows = read(tmp_path / "run", "metrics").to_dicts()
    assert [(r["step"], r["epoch"], r["split"], r["name"]) for r in rows] == [
        (1, 0.5, "test", "accuracy"),
        (2, None, "valid", "accuracy"),
        (2, None, "valid", "loss"),
    ]
    assert [r["value"] for r in rows[1:]] == [0.5, 1.25]
    assert rows[0]["value"] != rows[0]["value"]


def test_thousands_of_metrics_between_two_steps_are_all_kept(tmp_path: Path) -> None:
    net = model()
    with Recorder(tmp_path / "run", net, torch.optim.SGD(net.parameters(), lr=0.1), strict=True) as recorder:
        for i in range(3000):
            recorder.log("train", step=i, loss=torch.tensor(float(i)))
    assert read(tmp_path / "run", "metrics")["value"].to_list() == [float(i) for i in range(3000)]


def test_a_uri_is_a_run_directory_too(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    uri = f"file://{tmp_path}/run"
    with Recorder(uri, net, optimizer, strict=True) as recorder, recorder.step() as step:
        step.backward(net(torch.randn(4, 6)).sum())
    assert read(tmp_path / "run", "steps")["step"].to_list() == [0]


def test_one_step_may_bring_more_values_than_the_store_holds(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder, recorder.step() as step:
        step.backward(net(torch.randn(4, 6)).sum())
        recorder.log("train", **{f"metric{i}": torch.tensor(float(i)) for i in range(3000)})
    assert read(tmp_path / "run", "metrics")["value"].to_list() == [float(i) for i in range(3000)]
