"""DAT005: predictions and targets whose shapes broadcast to more than either of them holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..loss_inputs import LossCall, loss_calls, outer
from ..progress import measured, prediction_spread
from ..run import Run
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class SilentBroadcast(Detector):
    """Every prediction is compared with every target of the batch, because their shapes broadcast.

    ## What it does
    Looks at the shapes that the loss was given. If they have different numbers of dimensions and broadcast to a shape
    with more entries than either holds, as (64, 1) and (64,) do to (64, 64), predictions were compared with the targets
    of other samples. Shapes of the same number of dimensions are no finding: who adds a dimension to both compares all
    pairs on purpose. Nor is a target that is repeated for each of several outputs.

    ## Why it matters
    The best prediction for all targets at once is their mean. The model learns it and nothing else, without an error.

    ## What to try
    Give both the same shape: `prediction.squeeze(1)`, or `target.unsqueeze(1)`. Assert it before the loss.

    ## Options
    None.

    ## References
    - Full Stack Deep Learning, Troubleshooting: shapes that broadcast silently are the most common bug.
    """

    code: ClassVar[str] = "DAT005"
    name: ClassVar[str] = "silent-broadcast"
    severity: ClassVar[Severity] = "error"
    explains: ClassVar[tuple[str, ...]] = (
        "LOS001", "LOS004", "LOS005", "LOS006", "STP001", "STP002", "GRD002", "CUR001", "DAT002", "DAT007", "GEN002",
    )  # fmt: skip

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, for the first such call."""
        calls = loss_calls(run)
        if not any(call.prediction is not None and call.target is not None for call in calls):
            raise NotApplicable("the shapes of predictions and targets were not seen")
        first = next(outer(run), None)
        if first is not None:
            yield self._finding(run, first)

    def _finding(self, run: Run, call: LossCall) -> Finding:
        prediction, target, together = call.prediction or (), call.target or (), call.broadcast or ()
        pairs, entries = math.prod(together), max(math.prod(prediction), math.prod(target))
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"{call.name or 'The loss'} is given predictions of shape {prediction} and targets of shape"
            f" {target}, which broadcast to {together}: {count(pairs)} comparisons where {count(entries)} were meant.",
            confidence=0.97,
            first_step=call.step,
            last_step=run.last_step,
            value=pairs / entries,
            threshold=1.0,
            evidence=_evidence(run),
            causes=("Predictions have a last dimension of one that the targets lack, or the other way round",),
            advice=(
                "Give both the same shape: prediction.squeeze(-1), or target.unsqueeze(-1).",
                "Assert prediction.shape == target.shape before the loss.",
            ),
            chart=ChartRef("steps", "loss"),
        )


def _evidence(run: Run) -> Evidence:
    """What became of it: predictions that are nearly the same for all samples, and a loss that did not fall."""
    supporting: list[str] = []
    opposing: list[str] = []
    spread = prediction_spread(run)
    if spread is not None:
        told = f"At the end the predictions of a batch spread over {percent(spread)} of the range of the targets."
        (supporting if spread < 0.5 else opposing).append(told)
    progress = measured(run)
    if progress is not None:
        told = f"The loss went from {number(progress.start)} to {number(progress.end.value)}."
        (supporting if progress.end.value > 0.5 * progress.start else opposing).append(told)
    return Evidence(tuple(supporting), tuple(opposing))
