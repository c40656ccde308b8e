"""No verdict depends on units, on how often was probed, or on the order in which rows were written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.synthetic import CHANCE, Training, codes, falling, flat

HEALTHY = Training()
TRAININGS = {
    "healthy": (HEALTHY, []),
    "noise at a floor": (Training(loss=flat(300, 0.3), noise=0.5, logits=12.0), []),
    "converged": (Training(loss=falling(300, rate=0.2), update=lambda step, layer: 1e-5 + 0.005 * 0.9**step), []),
    "creeping": (Training(loss=flat(300), update=lambda step, layer: 1e-6, straight=0.9), [("STP002", "error")]),
    "vanishing": (Training(loss=flat(300), gradient=lambda step, layer: 10.0 ** (layer - 6)), [("GRD002", "error")]),
    "zero": (Training(loss=flat(300), weight=lambda step: 0.0), [("UPD003", "error")]),
    "not cleared": (
        Training(loss=flat(300), steps={"grad_norm": 2.0, "stale_grad_norm": [None, *flat(299, 2.0)]}),
        [("GRD003", "error")],
    ),
    "thrown off": (
        Training(loss=[CHANCE, *flat(299, 7.0)], update=lambda step, layer: 0.5 if step < 20 else 0.01),
        [("STP001", "error")],
    ),
}

names = st.sampled_from(sorted(TRAININGS))
factors = st.floats(-3, 3).map(lambda power: 10.0**power)
fast = settings(max_examples=12, deadline=None)


def verdict(training: Training) -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        return codes(training, Path(folder) / "run")


@pytest.mark.parametrize("name", sorted(TRAININGS))
def test_as_it_stands(name: str) -> None:
    training, expected = TRAININGS[name]
    assert verdict(training) == expected


@fast
@given(name=names.filter(lambda name: TRAININGS[name][0].logits < 5), factor=factors)
def test_scaling_the_loss_and_its_gradients(name: str, factor: float) -> None:
    training, expected = TRAININGS[name]
    assert verdict(training.but(loss_scale=factor)) == expected


@fast
@given(name=names, factor=factors)
def test_scaling_all_parameters(name: str, factor: float) -> None:
    training, expected = TRAININGS[name]
    assert verdict(training.but(weight_scale=factor)) == expected


@fast
@given(name=names, every=st.sampled_from([4, 16, 64]), dense=st.sampled_from([50, 100]))
def test_a_quarter_of_the_probes(name: str, every: int, dense: int) -> None:
    training, expected = TRAININGS[name]
    assert verdict(training.but(every=every, dense=dense)) == expected


@fast
@given(name=names, seed=st.integers(0, 1000))
def test_other_noise_and_other_order(name: str, seed: int) -> None:
    training, expected = TRAININGS[name]
    assert verdict(training.but(seed=seed, shuffled=True)) == expected


@fast
@given(name=names.filter(lambda name: name != "zero"), step=st.integers(1, 100_000))
def test_counting_from_another_step(name: str, step: int) -> None:
    """Verdicts on a run that was resumed from elsewhere are those on its steps, but for those on its beginning."""
    training, expected = TRAININGS[name]
    assert verdict(training.but(first_step=step)) == expected
