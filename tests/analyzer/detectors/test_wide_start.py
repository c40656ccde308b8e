"""UPD004."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.runs import tensor_entries, write_run
from support.synthetic import CHANCE, ByLayer, Training, codes, falling, flat, found, loss_input

from analyzer.detectors.exploding_gradients import ExplodingGradients
from analyzer.detectors.wide_start import WideInitialisation
from analyzer.findings import NotApplicable
from analyzer.run import open_run

RULE = WideInitialisation()
SHALLOW = Training(loss=flat(300, 14.0), logits=60.0, layers=2)


def test_outputs_of_a_shallow_network_that_are_too_large(tmp_path: Path) -> None:
    (finding,) = found(RULE, SHALLOW, tmp_path)
    assert (finding.severity, finding.first_step) == ("error", 0)
    assert finding.value == pytest.approx(14.0 / CHANCE, rel=0.1)


def test_it_is_the_only_root_and_the_rate_is_not_blamed(tmp_path: Path) -> None:
    thrown = SHALLOW.but(update=lambda step, layer: 0.8, alpha=lambda step: 2.0)
    assert codes(thrown, tmp_path) == [("UPD004", "error")]


@pytest.mark.parametrize(
    ("floor", "rate", "severity"), [(0.1, 0.1, "note"), (0.1, 0.005, "warning"), (3.0, 0.05, "error")]
)
def test_severity_by_what_became_of_it(tmp_path: Path, floor: float, rate: float, severity: str) -> None:
    training = SHALLOW.but(loss=falling(600, 14.0, floor, rate))
    assert [finding.severity for finding in found(RULE, training, tmp_path)] == [severity]


@pytest.mark.parametrize(("predictions", "fires"), [(40.0, True), (4.0, False)])
def test_a_regression_is_judged_by_its_predictions(tmp_path: Path, predictions: float, *, fires: bool) -> None:
    columns = {"target_min": -1.0, "target_max": 1.0, "grad_norm": 1.0, "loss": falling(300, 100.0)}
    spread = {"prediction_min": -predictions / 2, "prediction_max": predictions / 2}
    run = open_run(write_run(tmp_path, columns | spread | {"lr": [[0.1]] * 300}, events=(loss_input("MSELoss"),)))
    assert bool(list(RULE.detect(run))) is fires


DEEP = ["0.weight", "1.weight", "2.weight", "2.bias"]


def amplified(factor: float) -> Training:
    """Three layers, whose largest gradient is so many times that of the last bias."""
    gradient: ByLayer = lambda step, layer: 0.01 if layer == 3 else 0.01 * factor  # noqa: E731
    return SHALLOW.but(layers=4, names=DEEP, gradient=gradient, manifest={"tensors": tensor_entries(DEEP)})


def test_gradients_that_grow_on_the_way_are_said_to_explode(tmp_path: Path) -> None:
    assert codes(amplified(5000.0), tmp_path / "exploding") == [("GRD001", "error")]
    assert codes(amplified(10.0), tmp_path / "wide") == [("UPD004", "error")]
    with pytest.raises(NotApplicable, match="UPD004"):
        found(ExplodingGradients(), amplified(10.0), tmp_path / "not")


@pytest.mark.parametrize(("factor", "fires"), [(300.0, True), (20.0, False)])
def test_twice_chance_is_enough_with_amplified_gradients(tmp_path: Path, factor: float, *, fires: bool) -> None:
    training = amplified(factor).but(loss=flat(300, 2.5 * CHANCE), logits=20.0)
    assert bool(found(ExplodingGradients(), training, tmp_path)) is fires


def test_near_misses(tmp_path: Path) -> None:
    assert found(RULE, Training(loss=falling(300, 2 * CHANCE), logits=12.0, layers=2), tmp_path / "twice") == []
    assert found(RULE, Training(loss_scale=100.0, layers=2), tmp_path / "scaled") == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert found(RULE, Training(loss=flat(300), noise=0.4, seed=seed), tmp_path) == []


def test_not_applicable(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="continued"):
        found(RULE, SHALLOW.but(manifest={"first_step": 500}), tmp_path)


@pytest.mark.parametrize(
    ("wide", "loss", "severities"),
    [
        ([20, 20, 20, 1], flat(300), ["error"]),
        ([20, 20, 20, 1], falling(300, floor=0.5 * CHANCE), ["warning"]),
        ([20, 20, 20, 1], falling(300), []),  # a norm after each layer takes the scale out
        ([5, 5, 5, 1], flat(300), []),
        ([20, 1, 1, 1], flat(300), []),  # one layer of four
        ([20, 20, 20, 20], flat(300), []),  # other units of everything
    ],
)
def test_weights_that_are_too_wide_behind_bounded_activations(
    tmp_path: Path, wide: list[int], loss: list[float], severities: list[str]
) -> None:
    tensors = [
        entry | {"shape": [round(100 / gain**2) or 1, 100]}  # of norm 10
        for entry, gain in zip(tensor_entries([f"{layer}.weight" for layer in range(4)]), wide, strict=True)
    ]
    training = Training(loss=loss, layers=4, weight_scale=2.0, manifest={"tensors": tensors})
    assert [finding.severity for finding in found(RULE, training, tmp_path)] == severities
