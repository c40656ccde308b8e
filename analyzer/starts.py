"""What the very first step says about the initialisation, before any update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .depth import gradient_profile
from .noise import scalar
from .overshoot import broken
from .progress import logit_span, losses, prediction_spread, zero_information
from .run import Run


@dataclass(frozen=True, slots=True)
class WideStart:
    """Outputs far too large before the first update.

    `value` is what decides, by `kind`: the first loss over that of uniform predictions (`loss`), the spread of the
    predictions over that of the targets (`spread`), or the spread of the logits (`logits`); `threshold` is its limit.
    `level` is the loss of uniform predictions, where known. `growth` is log10 of how much larger the relative gradient
    of the first layers is than that of the last.
    """

    kind: Literal["loss", "spread", "logits"]
    step: int
    value: float
    threshold: float
    loss: float
    level: float | None
    level_name: str
    growth: float | None
    input_std: float | None


def wide_start(
    run: Run, loss_ratio: float = 3.0, spread_ratio: float = 5.0, widest_logits: float = 20.0
) -> WideStart | None:
    """How far the outputs were off at the first step; None if they were not, or if the run did not begin there.

    A run that is continued began elsewhere. A loss that was merely scaled is no reason: the logits must be as wide.
    """
    first = losses(run).head(1)
    if first.is_empty() or run.attempts[0].first_step != 0 or first["step"][0] > 2:
        return None
    step, loss, zero = int(first["step"][0]), float(first["loss"][0]), zero_information(run)
    kind: Literal["loss", "spread", "logits"]
    if zero is not None:
        kind, value, limit = "loss", loss / zero.uniform, loss_ratio
    elif (spread := prediction_spread(run, first=True)) is not None:
        kind, value, limit = "spread", spread, spread_ratio
    elif (span := logit_span(run)) is not None and _settled(run, loss):
        kind, value, limit = "logits", span, widest_logits
    else:
        return None
    if value < limit:
        return None
    level, name = (zero.uniform, zero.name) if zero else (None, "")
    return WideStart(kind, step, value, limit, loss, level, name, _growth(run, step), _input_std(run))


def _settled(run: Run, first: float) -> bool:
    """Whether the run left its first loss far behind, down or up: one that had converged before would not."""
    series = losses(run)["loss"]
    later = scalar(series.tail(max(1, series.len() // 2)).median())
    return broken(run) is not None or not first / 3 < later < 3 * first


def _growth(run: Run, step: int) -> float | None:
    profile = gradient_profile(run).head(1)
    return None if profile.is_empty() or profile["step"][0] > step + 1 else float(profile["decades"][0])


def _input_std(run: Run) -> float | None:
    values = run.frame("steps", "input_std")["input_std"].drop_nulls()
    return float(values[0]) if len(values) else None
