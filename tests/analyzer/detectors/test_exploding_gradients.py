"""GRD001."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.synthetic import CHANCE, Training, codes, falling, flat, found

from analyzer.detectors.exploding_gradients import ExplodingGradients
from analyzer.findings import NotApplicable

RULE = ExplodingGradients()
WIDE = Training(loss=flat(300, 14.0), logits=60.0, gradient=lambda step, layer: 10.0 ** (2 - 0.4 * layer))


def test_outputs_that_are_too_large_before_any_update(tmp_path: Path) -> None:
    (finding,) = found(RULE, WIDE, tmp_path)
    assert (finding.severity, finding.first_step) == ("error", 0)
    assert finding.value == pytest.approx(14.0 / CHANCE, rel=0.1)
    assert finding.threshold == RULE.loss_ratio
    assert finding.tensors[0] == "0.weight"
    assert any("from the last layer to the first" in sentence for sentence in finding.evidence.supporting)


def test_it_explains_the_loss_and_the_rate_is_not_blamed(tmp_path: Path) -> None:
    assert codes(WIDE.but(update=lambda step, layer: 0.8, alpha=lambda step: 2.0), tmp_path) == [("GRD001", "error")]


@pytest.mark.parametrize(
    ("floor", "rate", "severity"), [(0.1, 0.1, "note"), (0.1, 0.005, "warning"), (3.0, 0.05, "error")]
)
def test_severity_by_what_became_of_it(tmp_path: Path, floor: float, rate: float, severity: str) -> None:
    training = WIDE.but(loss=falling(600, 14.0, floor, rate))
    assert [finding.severity for finding in found(RULE, training, tmp_path)] == [severity]


def test_near_miss(tmp_path: Path) -> None:
    """Two times chance is not much: a network whose last layer is a little wide."""
    assert found(RULE, Training(loss=falling(300, 2 * CHANCE), logits=12.0), tmp_path) == []


def test_a_scaled_loss_is_no_wide_start(tmp_path: Path) -> None:
    assert found(RULE, Training(loss_scale=100.0), tmp_path) == []


def test_a_scaled_loss_does_not_hide_wide_logits(tmp_path: Path) -> None:
    training = WIDE.but(loss=falling(300, 14.0, 0.1, 0.1), loss_scale=1e4)
    assert [finding.code for finding in found(RULE, training, tmp_path)] == ["GRD001"]


def test_a_run_that_is_continued_began_elsewhere(tmp_path: Path) -> None:
    training = WIDE.but(manifest={"first_step": 500})
    assert found(RULE, training, tmp_path) == []


def test_unscaled_inputs_come_first_where_they_are(tmp_path: Path) -> None:
    (finding,) = found(RULE, WIDE.but(steps={"input_std": 90.0}), tmp_path)
    assert "nputs not scaled" in finding.causes[0]
    assert finding.confidence < found(RULE, WIDE, tmp_path / "scaled")[0].confidence


def later(growth: float, *, end: float) -> Training:
    """Learns for 600 steps, then the gradient grows and the loss goes where `end` says."""
    return Training(
        loss=[*falling(600), *flat(400, end)],
        gradient=lambda step, layer: 0.05 * (growth if step >= 598 else 1.0),
    )


def test_gradients_that_grow_later_and_take_the_loss_along(tmp_path: Path) -> None:
    (finding,) = found(RULE, later(50.0, end=5.0), tmp_path)
    assert finding.first_step == 600
    assert finding.value == pytest.approx(50.0, rel=0.1)


@pytest.mark.parametrize(("growth", "end"), [(50.0, 0.06), (3.0, 5.0)])
def test_one_witness_is_not_enough(tmp_path: Path, growth: float, end: float) -> None:
    assert found(RULE, later(growth, end=end), tmp_path) == []


def test_a_blow_up_at_the_start_is_left_to_the_rate(tmp_path: Path) -> None:
    training = Training(loss=[CHANCE, *flat(299, 9.0)], gradient=lambda step, layer: 0.05 if step == 0 else 50.0)
    assert found(RULE, training, tmp_path) == []


def test_noise_is_silent(tmp_path: Path) -> None:
    for seed in range(5):
        assert found(RULE, Training(loss=flat(400, CHANCE), noise=0.3, seed=seed), tmp_path / str(seed)) == []


def test_too_short_for_what_comes_later(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="100 steps"):
        found(RULE, Training(loss=falling(20)), tmp_path)
