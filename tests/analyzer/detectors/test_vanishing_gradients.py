"""GRD002."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.runs import tensor_entries
from support.synthetic import CHANCE, ByLayer, Training, codes, falling, flat, found

from analyzer.detectors.vanishing_gradients import VanishingGradients
from analyzer.findings import NotApplicable

RULE = VanishingGradients()


def decades(count: float, layers: int = 6) -> ByLayer:
    """Relative gradients that fall by so many powers of ten from the last layer to the first."""
    return lambda step, layer: 10 ** (-1 - count * (layers - 1 - layer) / (layers - 1))


STUCK = Training(loss=flat(300), gradient=decades(5))


def test_gradients_lost_on_the_way_down(tmp_path: Path) -> None:
    (finding,) = found(RULE, STUCK, tmp_path)
    assert finding.severity == "error"
    assert finding.value == pytest.approx(5.0, abs=0.3)
    assert finding.tensors == ("0.weight", "5.weight")
    assert (finding.first_step, finding.last_step) == (0, 288)


def test_it_explains_a_stalled_loss(tmp_path: Path) -> None:
    assert codes(STUCK, tmp_path) == [("GRD002", "error")]


def test_near_miss_in_size(tmp_path: Path) -> None:
    assert found(RULE, STUCK.but(gradient=decades(2.5)), tmp_path) == []


def test_near_miss_in_order(tmp_path: Path) -> None:
    """One odd tensor at the start is no loss with depth."""
    odd: ByLayer = lambda step, layer: 1e-6 if layer == 0 else 10.0 ** (-1 - layer / 3)  # noqa: E731
    assert found(RULE, STUCK.but(gradient=odd), tmp_path) == []


def test_a_network_that_learns_all_the_same_is_silent(tmp_path: Path) -> None:
    assert found(RULE, STUCK.but(loss=falling(300)), tmp_path) == []


def test_one_that_learns_a_little_is_warned(tmp_path: Path) -> None:
    (finding,) = found(RULE, STUCK.but(loss=falling(300, floor=1.6)), tmp_path)
    assert finding.severity == "warning"


def test_small_gradients_in_all_layers_are_no_finding(tmp_path: Path) -> None:
    assert found(RULE, Training(gradient=lambda step, layer: 1e-12), tmp_path) == []


def test_a_passing_spell_is_no_finding(tmp_path: Path) -> None:
    spell: ByLayer = lambda step, layer: decades(6)(step, layer) if step < 30 else 0.05  # noqa: E731
    assert found(RULE, STUCK.but(gradient=spell), tmp_path) == []


def test_gradients_that_died_later_are_told_apart(tmp_path: Path) -> None:
    died: ByLayer = lambda step, layer: 0.05 if step < 20 or layer == 5 else 0.0  # noqa: E731
    (finding,) = found(RULE, STUCK.but(gradient=died), tmp_path)
    assert finding.first_step == 20
    assert "Dead" in finding.causes[0]
    assert finding.confidence < found(RULE, STUCK, tmp_path / "from the start")[0].confidence


def test_no_gradient_at_any_weight(tmp_path: Path) -> None:
    """As after an initialisation with zeros, which only the last bias survives."""
    assert len(found(RULE, STUCK.but(gradient=lambda step, layer: 0.0), tmp_path)) == 1


def signal(level: float) -> Training:
    """Weights that get, at every depth, so much of the gradient of the last bias."""
    names = [*(f"{layer}.weight" for layer in range(6)), "5.bias"]
    faint: ByLayer = lambda step, layer: 0.05 if layer == 6 else 0.05 * level  # noqa: E731
    return STUCK.but(layers=7, names=names, gradient=faint, manifest={"tensors": tensor_entries(names)})


@pytest.mark.parametrize(("level", "fires"), [(1e-3, True), (0.1, False)])
def test_a_signal_that_fades_on_its_way_up(tmp_path: Path, level: float, *, fires: bool) -> None:
    assert ("GRD002" in dict(codes(signal(level), tmp_path))) is fires
    assert found(RULE, signal(level).but(loss=falling(300)), tmp_path / "healthy") == []


def test_a_first_layer_without_input_lost_nothing_above(tmp_path: Path) -> None:
    names = ["0.weight", "0.bias", "1.weight", "2.weight", "3.weight"]
    blind: ByLayer = lambda step, layer: 0.0 if layer == 0 else 0.05  # noqa: E731
    training = STUCK.but(layers=5, names=names, gradient=blind, manifest={"tensors": tensor_entries(names)})
    assert found(RULE, training, tmp_path) == []


def test_frozen_layers_and_embeddings_are_left_out(tmp_path: Path) -> None:
    """Without the two first tensors, the others are all alike."""
    first: ByLayer = lambda step, layer: 1e-9 if layer < 2 else 0.05  # noqa: E731
    tensors = tensor_entries([f"{layer}.weight" for layer in range(6)])
    tensors[0]["requires_grad"] = False
    tensors[1]["module_type"] = "Embedding"
    assert found(RULE, STUCK.but(gradient=first, manifest={"tensors": tensors}), tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    assert found(RULE, Training(loss=flat(300), noise=0.5, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (STUCK.but(layers=2), "depth"),
        (STUCK.but(loss=flat(8)), "probes"),
        (STUCK.but(loss=falling(300, CHANCE, -2.0)), "negative"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
