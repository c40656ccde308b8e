from __future__ import annotations

import pytest
from support.synthetic import Training, falling, flat
from zoo.judging import Said, loaded
from zoo.program import KINDS
from zoo.rivals.listed import RIVALS

SPIKED = [*falling(200), *([40.0] * 12), *falling(300)[212:]]


def told(name: str, training: Training, path) -> Said:
    training.write(path)
    return RIVALS[name](loaded(path))


def rules_of(said: Said) -> set[str]:
    return {item.code for item in said.named}


@pytest.mark.parametrize(
    ("tool", "rule", "training"),
    [
        ("SageMaker Debugger, every step", "VanishingGradient", Training(gradient=lambda step, layer: 1e-12)),
        ("SageMaker Debugger, every step", "LossNotDecreasing", Training(loss=flat(300))),
        ("SageMaker Debugger, every step", "WeightUpdateRatio: large", Training(update=lambda step, layer: 20.0)),
        ("SageMaker Debugger, every step", "UnchangedTensor", Training(update=lambda step, layer: 0.0)),
        ("MindInsight", "gradient_vanishing", Training(gradient=lambda step, layer: 1e-12)),
        ("MindInsight", "weight_change_too_large", Training(update=lambda step, layer: 2.0)),
        ("MindInsight", "overflow", Training(loss=[*falling(100), float("nan")])),
        ("AUTOTRAINER", "explode", Training(loss=[*falling(100), 2e3])),
        ("TheDeepChecker", "w_fast", Training(update=lambda step, layer: 0.5)),
        ("TheDeepChecker", "w_slow", Training(update=lambda step, layer: 1e-5)),
        ("TheDeepChecker", "div_loss", Training(loss=SPIKED)),
        ("OLMo", "OLMo", Training(loss=SPIKED)),
        ("Lightning", "Lightning", Training(loss=SPIKED)),
        ("KillLossSpike", "KillLossSpike", Training(loss=SPIKED)),
        ("trainscope z", "trainscope z", Training(loss=SPIKED)),
    ],
)
def test_a_rule_fires_on_what_it_is_for_and_not_on_a_healthy_training(tool, rule, training, tmp_path):
    assert rule in rules_of(told(tool, training, tmp_path / "faulty"))
    healthy = rules_of(told(tool, Training(noise=0.001), tmp_path / "healthy"))
    assert rule not in healthy or rule == "LossNotDecreasing"  # which fires on every loss that has reached its floor


@pytest.mark.parametrize("tool", RIVALS)
def test_what_a_tool_names_is_a_kind_of_fault(tool, tmp_path):
    said = told(tool, Training(loss=[1e3 * loss for loss in SPIKED], update=lambda step, layer: 20.0), tmp_path / "run")
    assert said.named
    assert {kind for item in said.named for kind in item.kinds} <= set(KINDS)


def test_rules_without_what_they_need_are_silent_and_say_so(tmp_path):
    said = told("AUTOTRAINER", Training(), tmp_path / "run")
    assert said.named == ()
    assert said.silent["not converged"] == "needs what is not recorded: an accuracy"
    assert said.silent["abnormal data"] == "needs the activations"
