"""NUM001."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.runs import write_run
from support.synthetic import Training, falling, found

from analyzer.detectors.nonfinite import NonFinite
from analyzer.run import open_run

RULE = NonFinite()


def with_loss(at: int, value: float, length: int = 1) -> Training:
    losses = falling(60)
    losses[at : at + length] = [value] * length
    return Training(loss=losses)


def test_the_first_step_is_named(tmp_path: Path) -> None:
    (finding,) = found(RULE, with_loss(37, math.nan, 23), tmp_path)
    assert (finding.first_step, finding.severity) == (37, "error")
    assert "step 37" in finding.message


def test_infinity_counts(tmp_path: Path) -> None:
    assert found(RULE, with_loss(37, math.inf, 23), tmp_path)[0].first_step == 37


def test_finite_losses_are_silent(tmp_path: Path) -> None:
    assert found(RULE, Training(loss=[1e30, *falling(50)]), tmp_path) == []


def test_a_run_that_came_back_is_a_warning(tmp_path: Path) -> None:
    assert found(RULE, with_loss(37, math.nan), tmp_path)[0].severity == "warning"


def test_the_first_gradient_in_backward_order_is_named(tmp_path: Path) -> None:
    """Gradients are computed from the last layer to the first: what is broken in layer 3 spreads to 2, 1 and 0."""
    training = Training(loss=falling(60), gradient=lambda step, layer: math.nan if step == 20 and layer <= 3 else 0.05)
    (finding,) = found(RULE, training, tmp_path)
    assert finding.first_step == 20
    assert finding.tensors == ("3.weight", "2.weight", "1.weight", "0.weight")
    assert "3.weight" in finding.message


def test_a_loss_that_breaks_with_finite_parameters_is_told_apart(tmp_path: Path) -> None:
    training = with_loss(20, math.nan, 40).but(gradient=lambda step, layer: math.nan if step >= 20 else 0.05)
    (finding,) = found(RULE, training, tmp_path)
    assert "though the parameters are finite" in finding.message
    assert finding.tensors == ()


def test_a_broken_parameter_is_named(tmp_path: Path) -> None:
    layers = {"0.weight": {"param_norm": [1.0, 1.0, math.inf]}, "1.weight": {"param_norm": [1.0, 1.0, 1.0]}}
    run = open_run(write_run(tmp_path, {"loss": [1.0, 1.0, math.nan]}, layers))
    (finding,) = RULE.detect(run)
    assert finding.tensors == ("0.weight",)


def test_broken_input_is_told(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, {"loss": [1.0, math.nan], "input_nonfinite": [0.0, 3.0]}))
    (finding,) = RULE.detect(run)
    assert "input" in finding.message


def skipping(path: Path, skips: int) -> list[object]:
    """A scaler that skips the first steps, as their gradients overflow."""
    steps = 100
    skipped = [step < skips for step in range(steps)]
    norms = [math.inf if skip else 1.0 for skip in skipped]
    run = open_run(write_run(path, {"loss": falling(steps), "skipped": skipped, "grad_norm": norms}))
    return list(RULE.detect(run))


@pytest.mark.parametrize("unscaled", [1.0, math.nan])
def test_a_gradient_that_was_only_scaled_too_far_is_no_finding(tmp_path: Path, unscaled: float) -> None:
    """Its norm overflows before the scale is taken out, and is finite when the optimizer steps."""
    columns = {"loss": falling(60), "grad_norm": [math.inf] * 60, "grad_norm_clipped": [unscaled] * 60}
    layers = {"0.weight": {"grad_norm": [math.inf] * 60, "param_norm": [1.0] * 60, "update_norm": [0.01] * 60}}
    found = list(RULE.detect(open_run(write_run(tmp_path, columns, layers))))
    assert bool(found) is math.isnan(unscaled)


def test_steps_that_a_scaler_skipped_are_no_finding(tmp_path: Path) -> None:
    assert skipping(tmp_path, 15) == []


def test_a_scaler_that_skips_on_and_on_is(tmp_path: Path) -> None:
    assert len(skipping(tmp_path, 30)) == 1


def test_a_single_step(tmp_path: Path) -> None:
    assert len(list(RULE.detect(open_run(write_run(tmp_path, {"loss": [math.nan]}))))) == 1


def unscaled(path: Path, update: float | None) -> list[object]:
    """Gradients that overflow at first, under a scaler that the recorder was not told of."""
    norms = [math.inf] * 3 + [1.0] * 57
    updates = [update] * 3 + [0.1] * 57
    run = open_run(write_run(path, {"loss": falling(60), "grad_norm": norms, "update_norm": updates}))
    return list(RULE.detect(run))


def test_steps_that_were_not_taken_are_no_finding(tmp_path: Path) -> None:
    assert unscaled(tmp_path / "none", None) == []
    assert unscaled(tmp_path / "zero", 0.0) == []
    assert len(unscaled(tmp_path / "taken", 0.1)) == 1
