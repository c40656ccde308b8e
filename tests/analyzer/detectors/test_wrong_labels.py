"""DAT007."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.recorded import recorded, says
from support.runs import write_run
from support.synthetic import CHANCE, Training, falling, flat, found, loss_input
from torch import Tensor

from analyzer.detectors.wrong_labels import WrongLabels
from analyzer.findings import Finding, NotApplicable
from analyzer.run import open_run

RULE = WrongLabels()


def classified(accuracy: Sequence[float], seed: int = 0) -> dict[str, Any]:
    """Counts of ten classes and hits, for each accuracy by step."""
    chance = random.Random(seed)
    counts, hits = [], []
    for share in accuracy:
        drawn = [chance.randrange(10) for _ in range(64)]
        right = [k for k in drawn if chance.random() < share]
        counts.append([float(drawn.count(k)) for k in range(10)])
        hits.append([float(right.count(k)) for k in range(10)])
    return {"class_counts": counts, "class_hits": hits}


def validated(path: Path, training: Training, loss: Sequence[float], accuracy: Sequence[float] = ()) -> list[Finding]:
    """What the rule finds where the validation had these losses and accuracies, evenly over the run."""
    training.write(path)
    names = ["loss"] * len(loss) + ["accuracy"] * len(accuracy)
    values = [*loss, *accuracy]
    every = len(training.loss) // max(len(loss), 1)
    steps = [every * (k + 1) - 1 for k in range(len(loss))] + [every * (k + 1) - 1 for k in range(len(accuracy))]
    metrics = {"step": steps, "split": ["valid"] * len(names), "name": names, "value": values}
    write_run(path / "metrics-only", metrics=metrics)
    (path / "metrics-only" / "metrics").rename(path / "metrics")
    return list(RULE.detect(open_run(path)))


MEMORISED = Training(loss=[CHANCE - 0.3 * step / 600 for step in range(600)], steps=classified([0.12] * 600))


def test_memorised_labels(tmp_path: Path) -> None:
    (finding,) = validated(tmp_path, MEMORISED, [2.31, 2.32, 2.33, 2.36], [0.1, 0.12, 0.09, 0.11])
    assert finding.severity == "error"
    assert "memorised" in finding.message


@pytest.mark.parametrize(
    ("loss", "accuracy"),
    [([2.3, 2.25, 2.15, 2.1], ()), ([2.3, 2.29, 2.28, 2.3], [0.1, 0.2, 0.28, 0.25]), ([2.3, 2.28, 2.2, 2.25], ())],
)
def test_what_holds_for_other_data_is_silent(tmp_path: Path, loss: Sequence[float], accuracy: Sequence[float]) -> None:
    assert validated(tmp_path, MEMORISED, loss, accuracy) == []


@pytest.mark.parametrize(
    ("losses", "fires"),
    [([1.0, 1.02, 1.1, 1.2], True), ([0.8, 0.9, 1.1, 1.2], False), ([9.0, 9.1, 9.2, 9.3], False)],
    ids=["says nothing of others", "overfits", "in other units"],
)
def test_a_regression_on_targets_of_others(tmp_path: Path, losses: Sequence[float], *, fires: bool) -> None:
    memorised = Training(loss=falling(300, start=1.0, floor=0.1, rate=0.005), events=(loss_input("mse_loss", (64, 1)),))
    try:
        assert bool(validated(tmp_path, memorised, losses)) is fires
    except NotApplicable:
        assert not fires


@pytest.mark.parametrize(("valid", "fires"), [([1.6, 1.4, 1.2, 1.3], False), ([0.92, 0.85, 0.84, 0.86], True)])
def test_validation_data_of_other_frequencies_are_no_proof(
    tmp_path: Path, valid: Sequence[float], *, fires: bool
) -> None:
    """Of ten classes one has nine tenths of the training data, and a tenth of the validation data, or as many."""
    counts, entropy = [[57.6, *[64 / 90] * 9]] * 600, -0.9 * math.log(0.9) - 0.1 * math.log(0.1 / 9)
    steps = {"class_counts": counts, "class_hits": counts}
    skewed = Training(loss=[CHANCE - 2 * min(1.0, step / 300) for step in range(600)], steps=steps)
    assert entropy == pytest.approx(0.545, abs=0.001)
    scale = 1.0 if not fires else entropy / 0.85
    accuracy = [0.3, 0.5, 0.6, 0.6] if not fires else [0.88, 0.9, 0.9, 0.89]
    assert bool(validated(tmp_path, skewed, [scale * loss for loss in valid], accuracy)) is fires


def test_overfitting_is_silent(tmp_path: Path) -> None:
    training = Training(loss=falling(400), steps=classified([0.1 + 0.9 * min(1, k / 100) for k in range(400)]))
    assert validated(tmp_path, training, [2.0, 1.4, 1.9, 2.6, 3.4], [0.3, 0.5, 0.5, 0.5, 0.5]) == []


NOISY = Training(loss=falling(400, floor=1.3), steps=classified([0.6] * 400))


def test_noise(tmp_path: Path) -> None:
    (finding,) = validated(tmp_path, NOISY, [1.5, 0.9, 0.6, 0.6], [0.7, 0.9, 0.94, 0.94])
    assert finding.severity == "note"  # augmentation would look alike
    assert "94" in finding.evidence.supporting[0]


def test_dropout_and_small_gaps_are_silent(tmp_path: Path) -> None:
    assert validated(tmp_path / "gap", NOISY, [1.5, 0.9, 0.8, 0.8], [0.6, 0.7, 0.7, 0.72]) == []
    modules = [{"name": "", "type": "Sequential"}, {"name": "0", "type": "Linear"}, {"name": "1", "type": "Dropout"}]
    dropout = NOISY.but(manifest={"modules": modules})
    assert validated(tmp_path / "dropout", dropout, [1.5, 0.9, 0.6, 0.6], [0.7, 0.9, 0.94, 0.94]) == []


def individual(ratio: float) -> dict[str, Any]:
    """Individual gradients of 64 samples whose signal is so much above their noise, entry by entry."""
    return {
        "gsnr_sum": 100 * ratio, "gsnr_count": 100.0, "individual_count": 64, "batch_size": 64, "inner_mean": 1.0,
        "grad_norm": 1.0, "grad_var": 64.0,
    }  # fmt: skip


STUCK = Training(loss=flat(400), steps=classified([0.1] * 400))


def test_nothing_to_learn(tmp_path: Path) -> None:
    (finding,) = found(RULE, STUCK, tmp_path / "basic")
    assert finding.severity == "warning"
    (finding,) = found(RULE, STUCK.but(steps=classified([0.1] * 400) | individual(1 / 63)), tmp_path / "gradients")
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "explained",
    [
        STUCK.but(steps=classified([0.1] * 400) | individual(3 / 63)),  # there is a signal
        STUCK.but(update=lambda step, layer: 1e-6),
        STUCK.but(steps=classified([0.1] * 400) | {"input_mean": 0.0, "input_std": 0.0, "input_absmax": 0.0}),
        STUCK.but(gradient=lambda step, layer: 10.0 ** (layer - 6)),
        STUCK.but(rate=lambda step: 0.1 if step < 50 else 1e-5),
        STUCK.but(loss=[*falling(200, rate=0.1), *flat(200)]),  # it had learned
        STUCK.but(steps=classified([0.3] * 400)),  # it predicts better than by chance
        STUCK.but(loss=[CHANCE, 9.0, 9.0, 7.0, *flat(396)]),
    ],
)
def test_where_something_else_explains_it(tmp_path: Path, explained: Training) -> None:
    assert found(RULE, explained, tmp_path) == []


def test_labels_that_are_drawn_anew_for_the_same_inputs(tmp_path: Path) -> None:
    inputs = {"input_mean": 0.1, "input_std": 1.0, "input_absmax": 3.0}
    (finding,) = found(RULE, STUCK.but(steps=classified([0.1] * 400) | inputs), tmp_path / "anew")
    assert "the same at every step" in finding.message
    kept = {name: [values[0]] * 300 for name, values in classified([0.3]).items()}
    assert found(RULE, Training(steps=kept | inputs), tmp_path / "kept") == []


def test_one_hot_inputs_look_alike_whatever_they_are(tmp_path: Path) -> None:
    one_hot = {"input_mean": 1 / 27, "input_std": math.sqrt(26) / 27, "input_absmax": 1.0}
    labels = classified([0.1] * 400)
    learned = Training(loss=falling(400, floor=1.5), steps=labels | one_hot)
    assert found(RULE, learned, tmp_path / "rows") == []
    spread = {"input_spread": [1.0 + step % 7 / 10 for step in range(400)]}
    others = {"input_mean": 0.0, "input_std": 1.0, "input_absmax": 2.0} | spread  # normalised, and not the same
    assert found(RULE, learned.but(steps=labels | others), tmp_path / "spread") == []


def test_noise_of_sound_trainings_is_silent(tmp_path: Path) -> None:
    for seed in range(5):
        hard = Training(loss=falling(400, floor=2.0), noise=0.4, seed=seed, steps=classified([0.2] * 400, seed))
        assert found(RULE, hard, tmp_path / str(seed)) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (STUCK.but(events=(loss_input("mse_loss"),)), "plain"),
        (STUCK.but(steps={}), "plain"),
        (STUCK.but(steps=classified([0.1] * 400) | {"optimizer": [step % 2 for step in range(400)]}), "optimizers"),
        (STUCK.but(manifest={"mode": "overfit-batch"}), "one batch"),
        (Training(loss=flat(60), steps=classified([0.1] * 60)), "too few"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def unrelated(index: int) -> tuple[Tensor, Tensor]:
    return torch.randn(16, 4), torch.randint(3, (16,))


def test_recorded(tmp_path: Path) -> None:
    assert says(RULE, recorded(tmp_path / "random", F.cross_entropy, batch=unrelated, steps=200, lr=0.02))
    assert not says(RULE, recorded(tmp_path / "right", F.cross_entropy, steps=120))
