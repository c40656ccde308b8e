"""When to keep the steps around something in full: a value turns non-finite, the loss or the gradient jumps.

This decides what is *kept*, not what is wrong; judging is the analyzer's.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

WINDOW = 64
"""Steps that a value is compared with."""
FACTOR = 10.0
"""Times the median of the window that make a jump."""
LIMIT = 20
"""Incidents kept of a run, so that a run that jumps for ever does not fill the disk."""


@dataclass(frozen=True, slots=True)
class Incident:
    """What happened (`nonfinite` or `jump` of a column; `exception` or `signal`), and at which step."""

    what: str
    column: str
    step: int

    def __str__(self) -> str:
        happened = {"nonfinite": "is not finite", "jump": "jumped"}.get(self.what)
        return f"{self.column} {happened} at step {self.step}" if happened else f"{self.what} after step {self.step}"


@dataclass(slots=True)
class Watch:
    """Follows one column step by step; only the onset of a non-finite or jumped stretch is an incident."""

    column: str
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _quiet: bool = True

    def incidents(self, steps: Sequence[int], values: Sequence[float | None]) -> list[Incident]:
        """Incidents among further steps of the run."""
        return [found for s, v in zip(steps, values, strict=True) if v is not None and (found := self._look(s, v))]

    def _look(self, step: int, value: float) -> Incident | None:
        what = self._what(value)
        if math.isfinite(value):
            self._recent.append(abs(value))
        begins, self._quiet = what is not None and self._quiet, what is None
        return Incident(what or "", self.column, step) if begins else None

    def _what(self, value: float) -> str | None:
        if not math.isfinite(value):
            return "nonfinite"
        if len(self._recent) < WINDOW // 4 or abs(value) <= FACTOR * max(self._recent) / 5:
            return None  # no jump beside an earlier one in the window; this also spares nearly all steps the median
        return "jump" if abs(value) > FACTOR * statistics.median(self._recent) else None
