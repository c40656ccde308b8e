"""What the very first step says about the initialisation, before any update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from .depth import amplification, gradient_profile, weights
from .findings import Evidence, Severity
from .noise import block_length, blocks, scalar
from .overshoot import broken, fed_nonfinite
from .progress import logit_span, losses, measured, prediction_spread, uninformed, zero_information
from .run import Run
from .wording import count, number

AMPLIFIED = 50.0
"""Largest gradient of a weight over that of the last bias, above which gradients grow on their way through a network.

Calibrated: healthy classifications stayed below 20, initialisations that are too wide reached 110 to 60 000.
"""

FAR = 3.0
"""Times AMPLIFIED, which is enough together with a first loss of twice that of uniform predictions."""

WELL = 0.5
"""Share of what there was to learn, less than which a run did not get over its start."""

UNSCALED = 10.0
"""Standard deviation of the input above which the input is the first suspect."""

_RECURRENT = ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell")


@dataclass(frozen=True, slots=True)
class WideStart:
    """Outputs far too large before the first update.

    `value` is what decides, by `kind`: the first loss over that of uniform predictions (`loss`), the spread of the
    predictions over that of the targets (`spread`), or the spread of the logits (`logits`); `threshold` is its limit.
    `level` is the loss of uniform predictions, where known. `growth` is log10 of how much larger the relative gradient
    of the first layers is than that of the last; `amplification`, how much larger the largest gradient of a weight is
    than that of the last bias, which is the gradient of the output. `deep`: three weights at least, or recurrent ones.
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
    amplification: float | None
    deep: bool

    @property
    def unscaled(self) -> bool:
        """Whether the input is so large that it is the first suspect."""
        return self.input_std is not None and self.input_std > UNSCALED

    @property
    def exploding(self) -> bool:
        """Whether gradients grew on their way through a deep or recurrent network, or the input made them large."""
        amplified = self.amplification is None or self.amplification >= AMPLIFIED
        return self.unscaled or (self.deep and amplified)


def wide_start(
    run: Run, loss_ratio: float = 3.0, spread_ratio: float = 7.0, widest_logits: float = 20.0
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
    amplified = _amplification(run, step)
    if zero is not None and amplified is not None and amplified >= FAR * AMPLIFIED:
        limit = min(limit, 2.0)
    if value < limit:
        return None
    level, name = (zero.uniform, zero.name) if zero else (None, "")
    growth, std, deep = _growth(run, step), _input_std(run), _deep(run)
    return WideStart(kind, step, value, limit, loss, level, name, growth, std, amplified, deep)


def _amplification(run: Run, step: int) -> float | None:
    found = amplification(run, step)["amplification"]
    return float(found[0]) if len(found) and found[0] > 0 else None


def _deep(run: Run) -> bool:
    return len(weights(run)) >= 3 or any(tensor.module_type in _RECURRENT for tensor in run.tensors)


def aftermath(run: Run, wide: WideStart, recovery: float) -> tuple[Severity, str, int | None]:
    """How grave a wide start turned out: what that means in words, and until which step the loss stayed too high.

    A run that is over it within a share of `recovery` of its steps, or 100, deserves a note; not so if the predictions
    of a regression were off by far, which hides how far it then got.
    """
    series, progress = losses(run), measured(run)
    last = int(series["step"][-1])
    broke = broken(run)
    if progress is None or (broke is not None and not fed_nonfinite(run, broke)):
        return "error", "The run did not stay finite.", last
    if uninformed(run, progress) or progress.end.value >= wide.loss:
        return "error", "The run never got over it.", last
    level = wide.loss / 10 if wide.level is None else wide.level
    means = blocks(series, "loss", block_length(series.height))
    fallen = means.filter(pl.col("mean") < level)
    if fallen.is_empty():
        return "warning", f"The loss has not fallen to {number(level)}.", last
    step = int(fallen["first_step"][0])
    far = wide.kind == "spread" and wide.value > 10 * wide.threshold
    if step - wide.step <= max(100, recovery * run.step_count) and not far and progress.learned > WELL:
        return "note", f"The run got over it within {count(step - wide.step)} steps.", step
    return "warning", f"It took until step {count(step)} to make up for it.", step


def description(wide: WideStart) -> str:
    """What is too large, with its value."""
    value = number(wide.value, 3)
    if wide.kind == "loss":
        level = f"{wide.level_name} ({number(wide.level)}), the loss of uniform predictions"
        return f"The first loss is {number(wide.loss)}, {value} times {level}"
    if wide.kind == "spread":
        return f"The first predictions spread {value} times as wide as the targets"
    return f"The first logits span {value}"


def witnesses(run: Run, wide: WideStart) -> Evidence:
    """What speaks for and against weights that are too wide."""
    norms = run.frame("steps", "grad_norm").filter(pl.col("grad_norm").is_finite())["grad_norm"]
    supporting: list[str] = []
    opposing: list[str] = []
    if len(norms) > 20:
        first, later = float(norms[0]), scalar(norms.tail(norms.len() // 2).median())
        told = (
            f"The first gradient norm is {number(first)}; the median over the second half of the run {number(later)}."
        )
        (supporting if first > 3 * later else opposing).append(told)
    if wide.amplification is not None:
        told = f"The largest gradient of a weight is {number(wide.amplification, 3)} times that of the last bias."
        (supporting if wide.amplification >= AMPLIFIED else opposing).append(told)
    if wide.growth is not None and wide.growth > 0.5:
        supporting.append(
            f"The relative gradient grows by a factor of {number(10**wide.growth, 3)} from the last layer to the first."
        )
    elif wide.growth is not None:
        opposing.append("The relative gradients of the weights do not grow towards the first layer.")
    if wide.input_std is not None:
        told = f"The input has a standard deviation of {number(wide.input_std, 3)}."
        (opposing if wide.unscaled else supporting).append(told)
    return Evidence(tuple(supporting), tuple(opposing))


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
