"""DAT012."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.synthetic import Training, codes, found

from analyzer.detectors.answer_given import AnswerGiven

RULE = AnswerGiven()
STEPS = 40


def feature(rest: float, batch: int = 32) -> Training:
    columns = {"copied_share": [1 - rest] * STEPS, "copied_feature": [3.0] * STEPS, "batch_size": [batch] * STEPS}
    columns["copied_samples"] = [float(batch * (step + 1)) for step in range(STEPS)]
    return Training(loss=[1.0] * STEPS, steps=columns)


def sequence(here: float, following: float, later: float | None) -> Training:
    looked = {"sequence_here": here, "sequence_next": following, "sequence_later": later}
    return Training(loss=[1.0] * STEPS, steps={name: [value, *[None] * (STEPS - 1)] for name, value in looked.items()})


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (feature(1e-9), "Feature 3"),
        (sequence(0.1, 1.0, 0.3), "later positions"),
        (sequence(1.0, 0.1, 0.0), "not shifted"),
    ],
)
def test_the_answer_is_given(tmp_path: Path, training: Training, words: str) -> None:
    (finding,) = found(RULE, training, tmp_path)
    assert finding.severity == "error"
    assert words in finding.message


@pytest.mark.parametrize(
    "training",
    [
        feature(1e-3),  # a very good feature
        feature(1e-9, batch=4),  # too few samples
        sequence(0.1, 1.0, 0.0),  # a language model
        sequence(1.0, 0.1, 0.4),  # an autoencoder
        sequence(0.85, 0.1, 0.4),  # masked words
        sequence(1.0, 1.0, 0.3),  # all words are alike
        sequence(0.1, 1.0, None),  # with batch norms nobody can tell
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


def test_noise_is_silent(tmp_path: Path) -> None:
    for seed in range(5):
        noisy = feature(0.4).but(seed=seed, noise=0.3)
        assert found(RULE, noisy, tmp_path / str(seed)) == []


def test_not_recorded(tmp_path: Path) -> None:
    assert codes(Training(), tmp_path) == []
