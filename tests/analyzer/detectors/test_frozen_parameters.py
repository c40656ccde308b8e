"""UPD002."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import tensor_entries
from support.synthetic import ByLayer, Training, falling, flat, found
from support.trainings import train
from torch import nn

from analyzer.detectors.frozen_parameters import FrozenParameters
from analyzer.run import open_run

RULE = FrozenParameters()
NAMES = [f"{layer}.weight" for layer in range(6)]


def still(layer: int) -> ByLayer:
    return lambda step, other: 0.0 if other == layer else 0.005


def test_unchanged_though_it_gets_gradients(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(update=still(1)), tmp_path)
    assert (finding.severity, finding.tensors) == ("error", ("1.weight",))
    assert "restored" in finding.causes[0]


@pytest.mark.parametrize(
    "training",
    [
        Training(update=lambda step, layer: 0.0),  # nothing moves: not this tensor's doing
        Training(update=still(1), gradient=lambda step, layer: 0.05 * (layer != 1)),  # dead, not frozen
        Training(update=still(1), rate=lambda step: 0.0),
        Training(update=still(1), rate=lambda step: 1e-6),  # the rate is too small: another rule's
        Training(update=lambda step, layer: 0.0 if layer == 1 and step % 4 else 0.005),  # moves every fourth step
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


def entries(**changes: Any) -> dict[str, Any]:
    """The tensors, the second of them with these changes."""
    tensors = tensor_entries(NAMES)
    tensors[1] |= changes
    return {"tensors": tensors}


def test_a_group_at_rate_zero_is_frozen_on_purpose(tmp_path: Path) -> None:
    rates = {"lr": [[0.1, 0.0]] * 300}
    assert found(RULE, Training(update=still(1), manifest=entries(group=1), steps=rates), tmp_path) == []


@pytest.mark.parametrize(("losses", "severity"), [(falling(300), "warning"), (flat(300), "error")])
def test_updates_that_are_lost_in_rounding(tmp_path: Path, losses: list[float], severity: str) -> None:
    training = Training(loss=losses, update=still(1), rate=lambda step: 0.01, manifest=entries(dtype="bfloat16"))
    (finding,) = found(RULE, training, tmp_path)
    assert finding.severity == severity
    assert "rounding" in finding.message


def test_steps_of_another_optimizer_do_not_count(tmp_path: Path) -> None:
    """A generator that steps once for twenty steps of the discriminator."""
    groups = [{"optimizer": i, "type": "SGD", "lr": 0.1, "options": {}} for i in range(2)]
    rare: ByLayer = lambda step, layer: 0.0 if layer == 1 and step % 20 else 0.005  # noqa: E731
    steps = {"optimizer": [int(step % 20 == 0) for step in range(300)], "lr": [[0.1, 0.1]] * 300}
    training = Training(update=rare, manifest=entries(group=1) | {"groups": groups}, steps=steps, every=4)
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert found(RULE, Training(loss=flat(300), noise=0.5, seed=seed), tmp_path) == []


@pytest.mark.parametrize("restored", [True, False])
def test_a_recorded_training(tmp_path: Path, *, restored: bool) -> None:
    """A layer that is copied from elsewhere before each step, such as a target network."""
    torch.manual_seed(0)
    first = nn.Linear(6, 8)
    kept = first.weight.detach().clone()

    class Restoring(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            if restored:
                with torch.no_grad():
                    first.weight.copy_(kept)

    model = nn.Sequential(first, nn.Tanh(), nn.Linear(8, 3))
    data = [(torch.randn(16, 6), torch.randint(0, 3, (16,))) for _ in range(30)]
    train(tmp_path / "run", model, data, nn.CrossEntropyLoss(), lambda p: Restoring(p, lr=0.1), preset="basic")
    assert [item.tensors for item in RULE.detect(open_run(tmp_path / "run"))] == [("0.weight",)] * restored
