"""STP003."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from support.synthetic import CHANCE, Training, codes, falling, flat, found

from analyzer.detectors.rate_decayed import RateDecayed
from analyzer.findings import NotApplicable

RULE = RateDecayed()

Rate = Callable[[int], float]


def exponential(factor: float) -> Rate:
    return lambda step: 0.1 * factor**step


def stages(step: int) -> float:
    return 0.1 * 0.1 ** (step // 100)


def cosine(step: int) -> float:
    return 0.05 * (1 + math.cos(math.pi * step / 300))


def throttled(rate: Rate, pace: float = 0.1, steps: int = 300) -> list[float]:
    """Mean losses that fall with what the rates add up to."""
    done, losses = 0.0, []
    for step in range(steps):
        losses.append(0.05 + (CHANCE - 0.05) * math.exp(-pace * done))
        done += rate(step)
    return losses


DECAYED = Training(loss=throttled(exponential(0.95)), rate=exponential(0.95), noise=0.01)


def test_a_rate_that_was_gone_before_much_was_learned(tmp_path: Path) -> None:
    (finding,) = found(RULE, DECAYED, tmp_path)
    assert finding.severity == "error"
    assert finding.first_step == pytest.approx(52, abs=1)
    assert finding.value == pytest.approx(0.82, abs=0.01)


def test_stages_that_end_while_the_loss_falls(tmp_path: Path) -> None:
    early: Rate = lambda step: 0.1 if step < 50 else 0.003  # noqa: E731
    (finding,) = found(RULE, Training(loss=throttled(early), rate=early, noise=0.01), tmp_path)
    assert "stayed at" in finding.message


def test_it_explains_a_stall_at_chance(tmp_path: Path) -> None:
    soon: Rate = lambda step: 0.1 if step < 22 else 1e-6  # noqa: E731
    assert codes(Training(loss=throttled(soon, 0.0085), rate=soon, noise=0.001), tmp_path) == [("STP003", "error")]


@pytest.mark.parametrize(
    "training",
    [
        Training(loss=throttled(cosine), rate=cosine),  # over at the end of the run
        Training(loss=throttled(stages, 1.0), rate=stages),  # settled in each stage
        Training(loss=[max(1.5, loss) for loss in throttled(stages, 1.0)], rate=stages),  # at a floor of its own
        Training(loss=throttled(exponential(0.95), 3.0), rate=exponential(0.95)),  # learned all there was
        DECAYED.but(rate=lambda step: 0.1),
    ],
)
def test_near_misses(tmp_path: Path, training: Training) -> None:
    assert found(RULE, training, tmp_path) == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_silent(tmp_path: Path, seed: int) -> None:
    noise = Training(loss=flat(300, 1.0), noise=0.3, seed=seed)
    assert found(RULE, noise.but(rate=stages), tmp_path / "stages") == []
    assert found(RULE, noise.but(rate=exponential(0.97)), tmp_path / "exponential") == []


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (DECAYED.but(loss=flat(300, -1.0)), "negative"),
        (DECAYED.but(loss=falling(300), steps={"optimizer": [step % 2 for step in range(300)]}), "take turns"),
    ],
)
def test_not_applicable(tmp_path: Path, training: Training, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        found(RULE, training, tmp_path)


def soon_little(step: int) -> float:
    return 0.1 if step < 100 else 5e-3


@pytest.mark.parametrize(
    ("loss", "noise", "severities"),
    [
        (falling(300, floor=0.6, rate=0.02), 0.3, ["warning"]),
        (falling(300, floor=0.6, rate=0.2), 0.01, []),
        (falling(300, floor=0.05, rate=0.2), 0.3, []),
        (flat(300, 1.0), 0.3, []),
    ],
    ids=["may have gone on", "settled long before", "all was learned", "never fell"],
)
def test_most_of_a_run_at_a_low_rate(tmp_path: Path, loss: list[float], noise: float, severities: list[str]) -> None:
    stopped = [value if step < 100 else loss[100] for step, value in enumerate(loss)]
    training = Training(loss=stopped, noise=noise, rate=soon_little)
    assert [finding.severity for finding in found(RULE, training, tmp_path)] == severities


def test_nearly_all_of_a_run_at_a_low_rate_needs_no_other_witness(tmp_path: Path) -> None:
    at_once = Training(loss=falling(300, floor=0.6, rate=0.5), noise=0.01, rate=lambda step: 0.1 if step < 20 else 5e-3)
    (finding,) = found(RULE, at_once, tmp_path)
    assert (finding.severity, finding.value) == ("warning", pytest.approx(280 / 300))
