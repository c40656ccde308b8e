"""UPD003."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.runs import tensor_entries
from support.synthetic import ByLayer, Training, codes, falling, flat, found, leaf, loss_input, wiring
from support.trainings import train
from torch import nn

from analyzer.detectors.symmetric_start import SymmetricStart
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = SymmetricStart()


def mean_row(share: ByLayer) -> dict[str, ByLayer]:
    """Norm of the mean row, such that the rows of weights of norm 10 differ by so large a share of the squared norm."""
    return {"mean_row_norm": lambda step, layer: 10 * (1 - share(step, layer)) ** 0.5}


EQUAL: ByLayer = lambda step, layer: 0.0 if 0 < layer < 3 else 0.9  # noqa: E731
ALIKE = Training(loss=flat(300), columns=mean_row(EQUAL))


def test_units_that_begin_and_stay_alike(tmp_path: Path) -> None:
    (finding,) = found(RULE, ALIKE, tmp_path)
    assert (finding.severity, finding.tensors) == ("error", ("1.weight", "2.weight"))


def test_zero_is_known_without_rows(tmp_path: Path) -> None:
    training = Training(loss=flat(300), weight=lambda step: 0.0)
    (finding,) = found(RULE, training, tmp_path)
    assert len(finding.tensors) == 6
    assert "zero" in finding.causes[0]


def test_it_comes_before_all_that_follows(tmp_path: Path) -> None:
    gone: ByLayer = lambda step, layer: 0.05 if layer == 5 else 0.0  # noqa: E731
    assert codes(ALIKE.but(gradient=gone), tmp_path) == [("UPD003", "error")]


@pytest.mark.parametrize(("floor", "severity"), [(0.05, "note"), (0.9, "warning"), (1.8, "error")])
def test_severity_by_how_the_run_fared(tmp_path: Path, floor: float, severity: str) -> None:
    training = ALIKE.but(loss=falling(300, floor=floor))
    assert [item.severity for item in found(RULE, training, tmp_path)] == [severity]


def test_weights_that_leave_their_beginning_are_healthy(tmp_path: Path) -> None:
    """Adapters, last layers and residual branches begin at zero."""
    away: ByLayer = lambda step, layer: 0.0 if step == 0 else 0.05  # noqa: E731
    assert found(RULE, ALIKE.but(columns=mean_row(away)), tmp_path) == []
    grown = Training(loss=flat(300), weight=lambda step: 0.1 * step, columns={"mean_row_norm": lambda s, i: 0.2 * s})
    assert found(RULE, grown, tmp_path / "grown") == []


def test_rows_that_become_alike_later_are_something_else(tmp_path: Path) -> None:
    shrunk: ByLayer = lambda step, layer: 0.9 if step < 50 else 0.0  # noqa: E731
    assert found(RULE, ALIKE.but(columns=mean_row(shrunk)), tmp_path) == []


def test_what_is_not_trained_is_left_out(tmp_path: Path) -> None:
    tensors = tensor_entries([f"{layer}.weight" for layer in range(6)])
    tensors[1]["requires_grad"] = False
    names = [tensor["name"] for tensor in tensors]
    events = (wiring([leaf(name, reached=name != "2.weight") for name in names]), loss_input())
    gone: ByLayer = lambda step, layer: 0.0 if layer == 2 else 0.05  # noqa: E731
    assert found(RULE, ALIKE.but(manifest={"tensors": tensors}, events=events, gradient=gone), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert (
        found(RULE, Training(loss=flat(300), noise=0.5, seed=seed, columns=mean_row(lambda s, i: 0.9)), tmp_path) == []
    )


def test_not_applicable(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="continued"):
        found(RULE, ALIKE.but(manifest={"first_step": 500}), tmp_path)


@pytest.mark.parametrize(("value", "fires"), [(0.1, True), (None, False)])
def test_a_recorded_training(tmp_path: Path, value: float | None, *, fires: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    nn.init.zeros_(model[-1].weight)  # type: ignore[arg-type]
    for layer in model[:-1]:
        if value is not None and isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, value)
    data = [(torch.randn(16, 6), torch.randint(0, 3, (16,))) for _ in range(60)]
    train(tmp_path / "run", model, data, nn.CrossEntropyLoss(), preset="basic")
    assert bool(list(RULE.detect(open_run(tmp_path / "run")))) is fires


@pytest.mark.parametrize(
    ("until", "loss", "severities"),
    [(5, flat(300), ["warning"]), (5, falling(300), []), (0, flat(300), [])],
    ids=["nothing learned", "did well", "apart at once"],
)
def test_equal_rows_that_come_apart_by_and_by(
    tmp_path: Path, until: int, loss: list[float], severities: list[str]
) -> None:
    apart: ByLayer = lambda step, layer: 0.0 if step <= until else 0.5  # noqa: E731
    training = ALIKE.but(loss=loss, columns=mean_row(apart))
    assert [item.severity for item in found(RULE, training, tmp_path)] == severities
