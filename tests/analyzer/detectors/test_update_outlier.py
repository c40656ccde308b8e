"""UPD001."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.runs import tensor_entries
from support.synthetic import CHANCE, ByLayer, Training, codes, falling, flat, found

from analyzer.detectors.update_outlier import UpdateOutlier
from analyzer.findings import NotApplicable

RULE = UpdateOutlier()
NAMES = [f"{layer}.weight" for layer in range(6)]
HALF = [0.5 * CHANCE + loss / 2 for loss in falling(300)]


def groups(first: float, others: float = 0.1, tensors: int = 1, **changes: Any) -> dict[str, Any]:
    """A manifest and rates in which the first tensors have a group and a rate of their own."""
    entries = tensor_entries(NAMES)
    for entry in entries[tensors:]:
        entry["group"] = 1
    for entry in entries[:tensors]:
        entry.update(changes)
    kinds = [{"optimizer": 0, "type": "SGD", "lr": rate, "options": {}} for rate in (first, others)]
    return {"manifest": {"tensors": entries, "groups": kinds}, "steps": {"lr": [[first, others]] * 300}}


def update(first: float, tensors: int = 1) -> ByLayer:
    return lambda step, layer: first if layer < tensors else 0.005


JUMPING = Training(loss=flat(300), update=update(0.5), **groups(10.0))
STILL = Training(loss=HALF, update=update(1e-5), **groups(1e-5))


def test_a_layer_whose_group_has_too_large_a_rate(tmp_path: Path) -> None:
    (finding,) = found(RULE, JUMPING, tmp_path)
    assert (finding.severity, finding.tensors) == ("error", ("0.weight",))
    assert finding.value == pytest.approx(2.0, abs=0.01)
    assert "100 times theirs" in finding.message


def test_a_training_that_gets_on_nevertheless_is_a_warning(tmp_path: Path) -> None:
    (finding,) = found(RULE, JUMPING.but(loss=[0.3 * CHANCE + 0.7 * loss for loss in falling(300)]), tmp_path)
    assert finding.severity == "warning"


def test_it_explains_the_rate_that_is_too_large_for_all(tmp_path: Path) -> None:
    def all_later(step: int, layer: int) -> float:
        return 0.5 if layer == 0 and step < 5 else 0.3

    blown = JUMPING.but(loss=[CHANCE, *flat(299, 7.0)], update=lambda s, n: 0.02 if n and s < 5 else all_later(s, n))
    assert codes(blown, tmp_path) == [("UPD001", "error")]


def test_an_embedding_that_jumps(tmp_path: Path) -> None:
    assert len(found(RULE, JUMPING.but(**groups(10.0, module_type="Embedding")), tmp_path)) == 1


def test_a_layer_whose_group_has_too_small_a_rate(tmp_path: Path) -> None:
    (finding,) = found(RULE, STILL, tmp_path)
    assert (finding.severity, finding.tensors) == ("warning", ("0.weight",))


@pytest.mark.parametrize(
    "training",
    [
        JUMPING.but(update=update(0.05)),  # ten times more, but little
        JUMPING.but(update=update(0.5), **groups(0.3)),  # its rate is not it, and no harm is seen
        JUMPING.but(loss=falling(300)),  # learned all there was
        JUMPING.but(update=lambda step, layer: 0.5),  # all of them: the rate of all is too large
        STILL.but(loss=falling(300)),
        STILL.but(update=update(1e-5, 4), **groups(1e-5, tensors=4)),  # most of them, on purpose
        STILL.but(update=update(1e-3), **groups(0.02)),
        STILL.but(gradient=lambda step, layer: 1e-5 if layer == 0 else 0.05),  # it gets no gradient
        STILL.but(**groups(1e-5, module_type="Embedding")),
        STILL.but(**groups(1e-5, requires_grad=False)),
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    scattered: ByLayer = lambda step, layer: 0.005 * 3.0 ** ((step * 7 + layer * 5 + seed) % 5 - 2)  # noqa: E731
    assert found(RULE, Training(loss=flat(300), update=scattered, noise=0.3, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(layers=2), "no peers"),
        (Training(loss=falling(2)), "fewer than 3 probes"),
        (JUMPING.but(steps=dict(JUMPING.steps) | {"optimizer": [s % 2 for s in range(300)]}), "take turns"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
