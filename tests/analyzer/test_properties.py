"""What no verdict of any rule depends on: units, the count of steps, the order of layers, how often was probed."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.synthetic import CHANCE, Training, falling, flat, judged, validated

from analyzer.precedence import tree


def scattered(step: int, layer: int) -> float:
    return 0.005 * math.exp(0.3 * math.sin(7 * step + layer))


TRAININGS = {
    "healthy": Training(update=scattered),
    "noise at a floor": Training(loss=flat(300, 0.3), noise=0.5, logits=12.0),
    "warm-up and cosine": Training(
        loss=falling(400, rate=0.015),
        rate=lambda step: 0.1 * min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / 400)),
    ),
    "validated": Training(metrics=validated(lambda share: max(0.15, CHANCE * (1 - 2 * share)), noise=0.02)),
    "overfits": Training(
        loss=falling(300, floor=0.001, rate=0.03),
        metrics=validated(lambda share: CHANCE - 3.9 * share if share < 0.33 else 0.7 + 0.9 * share, noise=0.01),
    ),
    "creeping": Training(loss=flat(300), update=lambda step, layer: 1e-6, straight=0.9),
    "vanishing": Training(loss=flat(300), gradient=lambda step, layer: 10.0 ** (layer - 6)),
    "thrown off": Training(loss=[CHANCE, *flat(299, 7.0)], update=lambda step, layer: 0.5 if step < 20 else 0.01),
    "diverging": Training(loss=[*falling(150), *[0.2 * 1.05**step for step in range(150)]]),
}

SAME_UNIT = ("overfits", "validated", "noise at a floor")
"""What was logged, or the spread of the logits, has a unit that scaling the training loss alone does not change."""

names = st.sampled_from(sorted(TRAININGS))
factors = st.floats(-3, 3).map(lambda power: 10.0**power)
changes_of_unit = st.one_of(st.floats(-3, -0.5), st.floats(0.5, 3)).map(lambda power: 10.0**power)
"""A smaller factor cannot be told from first predictions that are a little off."""
few = settings(max_examples=10, deadline=None)


def verdict(training: Training) -> list[tuple[str, str]]:
    """Code and severity of all findings, folded ones too."""
    with tempfile.TemporaryDirectory() as folder:
        result = judged(training, Path(folder) / "run")
        assert [state for state in result.detectors if state.state == "failed"] == []
        return [(finding.code, finding.severity) for root in result.findings for finding in tree(root)]


def unchanged(name: str, **changes: Any) -> None:
    training = TRAININGS[name]
    assert verdict(training.but(**changes)) == verdict(training)


@pytest.mark.parametrize("name", ["healthy", "noise at a floor", "warm-up and cosine", "validated"])
def test_healthy_trainings_pass(name: str) -> None:
    assert [found for found in verdict(TRAININGS[name]) if found[1] != "note"] == []


@pytest.mark.parametrize("name", ["overfits", "creeping", "vanishing", "thrown off"])
def test_faulty_trainings_do_not(name: str) -> None:
    assert [found for found in verdict(TRAININGS[name]) if found[1] != "note"] != []


@few
@given(name=names.filter(lambda name: name not in SAME_UNIT), factor=changes_of_unit)
def test_scaling_the_loss(name: str, factor: float) -> None:
    unchanged(name, loss_scale=factor)


@few
@given(factor=factors)
def test_scaling_the_loss_and_what_was_logged_of_it(factor: float) -> None:
    training = TRAININGS["overfits"]
    values = [value * factor for value in training.metrics["value"]]
    scaled = training.but(loss_scale=factor, metrics={**training.metrics, "value": values})
    assert verdict(scaled) == verdict(training)


@few
@given(name=names, factor=factors)
def test_scaling_all_parameters(name: str, factor: float) -> None:
    unchanged(name, weight_scale=factor)


@few
@given(name=names.filter(lambda name: not TRAININGS[name].metrics), step=st.integers(1, 100_000))
def test_counting_the_steps_from_elsewhere(name: str, step: int) -> None:
    """A verdict on a run that began elsewhere is that on its steps."""
    unchanged(name, first_step=step)


@pytest.mark.parametrize("name", sorted(TRAININGS))
def test_the_order_in_which_layers_were_written(name: str) -> None:
    unchanged(name, shuffled=True)


@pytest.mark.parametrize("name", sorted(TRAININGS))
def test_a_quarter_of_the_probes(name: str) -> None:
    unchanged(name, every=4 * TRAININGS[name].every, dense=25)
