"""GRD003."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.synthetic import CHANCE, Training, codes, falling, flat, found, leaf, loss_input, wiring
from support.trainings import train
from torch import nn

from analyzer.detectors.stale_gradients import StaleGradients
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = StaleGradients()


def left(steps: int = 300, *, share: float = 1.0) -> dict[str, Any]:
    """Gradients of which the next step finds so much."""
    norms = [1.0 + 0.01 * step for step in range(steps)]
    return {"grad_norm": norms, "stale_grad_norm": [None, *(share * norm for norm in norms[:-1])]}


def accumulated() -> dict[str, Any]:
    """Rows of micro-batches: an optimizer steps, and gradients are cleared, after each fourth."""
    columns = left()
    stale = [value if step % 4 else None for step, value in enumerate(columns["stale_grad_norm"])]
    stepped = [0 if step % 4 == 3 else None for step in range(300)]
    return columns | {"stale_grad_norm": stale, "optimizer": stepped}


def test_gradients_that_add_up_and_harm(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=flat(300), steps=left()), tmp_path)
    assert (finding.severity, finding.first_step, finding.value) == ("error", 1, 1.0)


def test_without_harm_it_is_a_warning(tmp_path: Path) -> None:
    assert [item.severity for item in found(RULE, Training(steps=left()), tmp_path)] == ["warning"]


def test_it_comes_before_the_rate(tmp_path: Path) -> None:
    thrown = Training(
        loss=[CHANCE, 3.0, 5.0, *flat(297, 4.0)], update=lambda step, layer: 0.5 if step < 10 else 0.001, steps=left()
    )
    assert codes(thrown, tmp_path) == [("GRD003", "error")]


def test_clipped_gradients_are_compared_with_what_was_left(tmp_path: Path) -> None:
    columns = left() | {"grad_norm_clipped": [0.3] * 300, "stale_grad_norm": [None] + [0.3] * 299}
    assert len(found(RULE, Training(steps=columns), tmp_path)) == 1


@pytest.mark.parametrize(
    "columns",
    [
        left(share=0.0),  # set to zero in place
        left(share=0.7),  # something else is left, such as the gradients of frozen tensors
        accumulated(),
        left() | {"stale_grad_norm": [float(step % 3 == 0) or None for step in range(300)]},
    ],
)
def test_near_misses(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert found(RULE, Training(loss=flat(300), steps=columns), tmp_path) == []


def test_a_gradient_left_for_ever_in_tensors_that_are_trained_no_longer_is_not_meant(tmp_path: Path) -> None:
    """Of a backbone that was frozen after it was trained, and the rest of the gradient is small."""
    columns = {"grad_norm": [5.0 + 1e-4 * (step % 7) for step in range(300)], "stale_grad_norm": 5.0}
    assert found(RULE, Training(steps=columns), tmp_path) == []


def test_noise_is_silent(tmp_path: Path) -> None:
    assert found(RULE, Training(loss=flat(300), noise=0.5), tmp_path) == []


def test_gradients_of_tensors_that_no_optimizer_holds_are_not_meant(tmp_path: Path) -> None:
    """Nobody clears them, and they soon outgrow the others."""
    gradient = 0.05
    names = [f"{layer}.weight" for layer in range(6)]
    events = (wiring([leaf(name, held=layer > 0) for layer, name in enumerate(names)]), loss_input())
    whole = [(500 * gradient) * step for step in range(1, 301)]
    training = Training(
        loss=falling(300),
        noise=0.0,
        gradient=lambda step, layer: 50 * gradient * (step + 1) if layer == 0 else gradient,
        events=events,
        steps={"grad_norm": whole, "stale_grad_norm": [None, *(norm * 0.9999 for norm in whole[:-1])]},
    )
    with pytest.raises(NotApplicable, match="too few"):
        found(RULE, training, tmp_path)


def test_optimizers_that_take_turns(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="turns"):
        found(RULE, Training(steps=left() | {"optimizer": [step % 2 for step in range(300)]}), tmp_path)


@pytest.mark.parametrize("zero", [True, False])
def test_a_recorded_training(tmp_path: Path, *, zero: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    halves = [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(2)]
    train(tmp_path / "run", model, [halves] * 30, nn.CrossEntropyLoss(), zero=zero, preset="basic")
    assert bool(list(RULE.detect(open_run(tmp_path / "run")))) is not zero
