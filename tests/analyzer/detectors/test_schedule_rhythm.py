"""STP004."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import CHANCE, Training, codes, epochs, falling, flat, found

from analyzer.detectors.schedule_rhythm import ScheduleRhythm
from analyzer.findings import NotApplicable

RULE = ScheduleRhythm()
Rate = Callable[[int], float]


def by_batch(step: int) -> float:
    return 0.1 * 0.8**step


def stages(length: int) -> Rate:
    return lambda step: 0.1 * 0.2 ** (step // length)


def warm_up(step: int) -> float:
    return 1e-4 * (step + 1)


def stairs(step: int) -> float:
    return 1e-4 * (step // 20 + 1)


def cosine(period: int) -> Rate:
    return lambda step: 0.05 * (1 + math.cos(2 * math.pi * step / period))


SLOW = [CHANCE * (1 - 0.2 * step / 300) for step in range(300)]
EPOCHS = epochs(300, 20)
COLLAPSED = Training(loss=flat(300), rate=by_batch, noise=0.01)


def test_a_drop_at_every_step(tmp_path: Path) -> None:
    (finding,) = found(RULE, COLLAPSED, tmp_path)
    assert finding.severity == "error"
    assert "at every step" in finding.message


def test_several_drops_an_epoch(tmp_path: Path) -> None:
    (finding,) = found(RULE, COLLAPSED.but(rate=stages(8), metrics=EPOCHS), tmp_path)
    assert "every 8 steps; an epoch has 20" in finding.message


def test_it_is_the_cause_of_a_rate_that_decayed_and_of_the_stall(tmp_path: Path) -> None:
    assert codes(COLLAPSED, tmp_path) == [("STP004", "error")]


def test_a_rate_of_zero_with_time_left(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=flat(300), rate=lambda step: max(0.0, 0.1 - step / 1000)), tmp_path)
    assert finding.first_step == 101
    assert finding.value == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize(("rate", "words"), [(warm_up, "at every step"), (stairs, "once an epoch")])
def test_a_warm_up_that_never_ends(tmp_path: Path, rate: Rate, words: str) -> None:
    (finding,) = found(RULE, Training(loss=SLOW, rate=rate), tmp_path)
    assert "still rising" in finding.message
    assert words in finding.message


def test_a_warm_up_that_never_ends_of_a_training_that_got_on_well_is_noted(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=falling(300), rate=warm_up), tmp_path)
    assert finding.severity == "note"


def test_cycles_within_an_epoch(tmp_path: Path) -> None:
    (finding,) = found(RULE, Training(loss=SLOW, rate=cosine(30), metrics=EPOCHS), tmp_path)
    assert finding.severity == "warning"
    assert any("as many as there were epochs (15)" in sentence for sentence in finding.evidence.supporting)


def test_a_jump_where_the_run_was_resumed(tmp_path: Path) -> None:
    decayed = Training(loss=falling(300), rate=lambda step: 0.1 * 0.98**step)
    decayed.write(tmp_path)
    again = Training(loss=[1.0 + loss for loss in falling(200, rate=0.1)], attempt=1, first_step=200)
    (finding,) = found(RULE, again, tmp_path)
    assert (finding.severity, finding.first_step) == ("warning", 200)
    quiet = again.but(loss=flat(200, 0.05))
    assert found(RULE, quiet, tmp_path) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": falling(300)},  # learned all there was, whatever the rate did
        {"rate": stages(30), "metrics": EPOCHS},  # a drop every epoch and a half
        {"rate": lambda step: 0.1 * 0.96**step},  # ends at 5e-6
        {"rate": lambda step: 0.1 * (1 - step / 299)},  # zero at the last step
        {"rate": lambda step: 0.0 if step == 0 else 0.1},  # zero at the first step
        {"rate": cosine(75)},  # restarts
        {"rate": lambda step: min(0.1, 0.001 * (step + 1))},  # a warm-up that ends
    ],
)
def test_near_misses(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert found(RULE, COLLAPSED.but(**changes), tmp_path) == []


def test_a_rate_that_rises_until_the_loss_breaks_is_too_large(tmp_path: Path) -> None:
    rising = Training(
        loss=[*falling(200), *flat(100, 9.0)],
        rate=lambda step: 0.001 * 1.02**step,
        update=lambda step, layer: 1e-4 * 1.03**step,
    )
    assert codes(rising, tmp_path) == [("STP001", "error")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rate", [lambda step: 0.1, cosine(100), lambda step: 0.1 * 0.99**step])
def test_noise_is_silent(tmp_path: Path, seed: int, rate: Rate) -> None:
    assert found(RULE, Training(loss=flat(300), noise=0.3, rate=rate, seed=seed), tmp_path) == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (COLLAPSED.but(loss=flat(40)), "fewer than 50"),
        (COLLAPSED.but(rate=lambda step: 0.0), "always zero"),
        (COLLAPSED.but(loss=flat(300, -1.0)), "negative"),
        (COLLAPSED.but(steps={"optimizer": [step % 2 for step in range(300)]}), "take turns"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)
