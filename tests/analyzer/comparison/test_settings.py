from __future__ import annotations

from pathlib import Path
from typing import Any

from support.runs import tensor_entries, write_run

from analyzer.comparison.settings import differences, flat, is_seed, numeric_settings
from analyzer.run import Run, open_run


def run(path: Path, steps: dict[str, Any] | None = None, **manifest: Any) -> Run:
    return open_run(write_run(path, steps or {"loss": [2.0, 1.0]}, manifest=manifest))


def told(*runs: Run) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(item.group, item.name): item.values for item in differences(runs)}


def test_runs_that_were_set_up_alike_do_not_differ(tmp_path: Path) -> None:
    """Neither do those that began at another time as another process: no two runs share that."""
    one = run(tmp_path / "a", started="2026-01-01T00:00:00+00:00", pid=1)
    assert told(one, run(tmp_path / "b", started="2027-01-01T00:00:00+00:00", pid=2)) == {}


def test_only_what_differs_is_told_by_group_and_in_the_order_of_the_runs(tmp_path: Path) -> None:
    group = {"optimizer": 0, "type": "SGD", "lr": 0.1, "options": {"momentum": 0.9, "nesterov": False}}
    adam = {"optimizer": 0, "type": "Adam", "lr": 0.003, "options": {"betas": [0.9, 0.95]}}
    one = run(tmp_path / "a", hparams={"width": 64, "data": {"size": 100, "seed": 0}}, groups=[group])
    other = run(
        tmp_path / "b",
        {"loss": [2.0, 1.0, 0.5], "batch_size": 32},
        hparams={"width": 64, "data": {"size": 200, "seed": 1}, "note": "new"},
        groups=[adam],
        versions={"python": "3.11.7", "torch": "2.14.0"},
        tensors=tensor_entries(["0.weight"]),
        preset="full",
    )
    known = told(one, other)
    assert known["Hyperparameters", "data.size"] == ("100", "200")
    assert known["Hyperparameters", "note"] == ("–", "new")
    assert ("Hyperparameters", "width") not in known
    assert known["Optimizer", "type"] == ("SGD", "Adam")
    assert known["Optimizer", "lr"] == ("0.1", "0.003")
    assert known["Optimizer", "momentum"] == ("0.9", "–")
    assert known["Optimizer", "nesterov"] == ("no", "–")
    assert known["Optimizer", "betas[1]"] == ("–", "0.95")
    assert known["Model", "tensors"] == ("0", "1")
    assert known["Training", "batch size"] == ("–", "32")
    assert known["Recorder", "preset"] == ("economy", "full")
    assert known["Surroundings", "torch"] == ("2.13.0", "2.14.0")
    assert list(dict.fromkeys(group for group, _ in known)) == [
        "Hyperparameters",
        "Optimizer",
        "Model",
        "Training",
        "Recorder",
        "Surroundings",
    ]


def test_another_activation_or_dropout_shows(tmp_path: Path) -> None:
    def modules(act: str, dropout: float) -> list[dict[str, Any]]:
        inner = [("0", "Linear"), ("1", act), ("2", "Linear"), ("3", act), ("4", "Identity")]
        named = [("", "Sequential"), ("body", "Sequential"), *((f"body.{name}", kind) for name, kind in inner)]
        drop = {"name": "body.5", "type": "Dropout", "dropout": dropout}
        return [*({"name": name, "type": kind} for name, kind in named), drop]

    entries = tensor_entries(["body.0.weight", "body.2.weight"])
    one = run(tmp_path / "a", modules=modules("Tanh", 0.1), tensors=entries)
    other = run(tmp_path / "b", modules=modules("ReLU", 0.5), tensors=entries)
    expected = {("Model", "layers without parameters"): ("Tanh × 2, Dropout(0.1) × 1", "ReLU × 2, Dropout(0.5) × 1")}
    assert told(one, other) == expected
    assert told(one, run(tmp_path / "c", modules=modules("Tanh", 0.1), tensors=entries)) == {}


def test_schedules_that_begin_at_the_same_rate_differ(tmp_path: Path) -> None:
    rates = [[0.1], [0.05], [0.01]]
    one = run(tmp_path / "a", {"loss": [3.0, 2.0, 1.0], "lr": [[0.1]] * 3})
    other = run(tmp_path / "b", {"loss": [3.0, 2.0, 1.0], "lr": rates})
    assert told(one, other) == {("Optimizer", "learning rate over the run"): ("0.1 throughout", "0.1 to 0.01")}


def test_parameter_groups_are_told_apart_only_in_what_they_differ(tmp_path: Path) -> None:
    groups = [{"optimizer": 0, "type": "SGD", "lr": rate, "options": {"momentum": 0.9}} for rate in (0.1, 0.2)]
    known = told(run(tmp_path / "a", groups=groups), run(tmp_path / "b", groups=groups[:1]))
    assert known == {
        ("Optimizer", "lr of group 0"): ("0.1", "–"),
        ("Optimizer", "lr of group 1"): ("0.2", "–"),
        ("Optimizer", "groups"): ("2", "1"),
        ("Optimizer", "lr"): ("–", "0.1"),
    }


def test_numbers_are_tunable_and_switches_are_not(tmp_path: Path) -> None:
    hparams = {"lr": 0.1, "nesterov": True, "name": "x", "layers": [64, 32]}
    numbers = {name: value for (_, name), value in numeric_settings(run(tmp_path / "a", hparams=hparams)).items()}
    assert numbers.keys() >= {"lr", "layers[0]", "layers[1]", "momentum"}
    assert not numbers.keys() & {"nesterov", "name"}


def test_seeds_are_known_by_their_names() -> None:
    assert all(is_seed(("", name)) for name in ("seed", "data.seed", "random_state", "torch_seed"))
    assert not any(is_seed(("", name)) for name in ("seeding_rate", "lr", "reseeded"))


def test_nested_settings_are_flattened() -> None:
    assert list(flat({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": ["x"], "f": []})) == [
        ("a.b", 1),
        ("a.c.d[0]", 1),
        ("a.c.d[1]", 2),
        ("e", ["x"]),
        ("f", []),
    ]
