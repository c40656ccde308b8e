"""What the very first step says about the initialisation, before any update."""

from __future__ import annotations

from dataclasses import dataclass

from .depth import gradient_profile
from .progress import losses, prediction_spread, zero_information
from .run import Run


@dataclass(frozen=True, slots=True)
class WideStart:
    """Outputs far too large before the first update.

    `ratio` is what decides: the first loss over that of uniform predictions, or the spread of the predictions over that
    of the targets. `expected` and `measured` are the two values. `growth` is log10 of how much larger the relative
    gradient of the first layers is than that of the last.
    """

    classification: bool
    step: int
    ratio: float
    measured: float
    expected: float
    expected_name: str
    growth: float | None
    input_std: float | None


def wide_start(run: Run, loss_ratio: float = 3.0, spread_ratio: float = 5.0) -> WideStart | None:
    """How far the outputs were off at the first step; None if they were not, or if the run did not begin there.

    A run that is continued began elsewhere. A loss that was scaled is no reason: the predictions must be as wide.
    """
    first = losses(run).head(1)
    begins = run.attempts[0].first_step
    if first.is_empty() or begins != 0 or first["step"][0] > 2:
        return None
    step, loss = int(first["step"][0]), float(first["loss"][0])
    zero = zero_information(run)
    if zero is not None:
        ratio, measured, expected, name = loss / zero.uniform, loss, zero.uniform, zero.name
        limit = loss_ratio
    else:
        spread = prediction_spread(run, first=True)
        if spread is None:
            return None
        ratio, measured, expected, name, limit = spread, spread, 1.0, "the spread of the targets", spread_ratio
    if ratio < limit:
        return None
    return WideStart(zero is not None, step, ratio, measured, expected, name, _growth(run, step), _input_std(run))


def _growth(run: Run, step: int) -> float | None:
    profile = gradient_profile(run).head(1)
    return None if profile.is_empty() or profile["step"][0] > step + 1 else float(profile["decades"][0])


def _input_std(run: Run) -> float | None:
    values = run.frame("steps", "input_std")["input_std"].drop_nulls()
    return float(values[0]) if len(values) else None
