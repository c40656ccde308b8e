"""The bins of the gradient histograms as axes: logarithmic on both sides of zero, a bin as wide as any other."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..wording import number

if TYPE_CHECKING:
    from ..run import Run


@dataclass(frozen=True, slots=True)
class EntryBins:
    """Edges of bins, ascending; the outermost reach to infinity, the middle one around zero."""

    edges: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.edges) - 1

    def ticks(self, low: int, high: int, most: int = 14) -> dict[str, Any]:
        """An axis of the bins from `low` to below `high`: zero, and powers of ten on both sides."""
        middle = len(self) // 2 + 0.5
        powers = [power for power in range(-40, 41) if self.edges[len(self) // 2 + 1] < 10.0**power < self.edges[-2]]
        stride = max(1, -(-2 * len(powers) // most))
        words = {middle: "0"}
        for power in powers:
            if power % stride == 0:
                away = self._away(10.0**power)
                label = number(10.0**power)
                words |= {round(middle + away, 2): label, round(middle - away, 2): f"\u2212{label}"}
        shown = {place: words[place] for place in sorted(words) if low <= place <= high}
        return {
            "values": list(shown),
            "labelExpr": f"{json.dumps(list(shown.values()))}[round(datum.index * {max(1, len(shown) - 1)})]",
            "tickCount": len(shown),  # beyond it Vega thins the given values out
            "labelOverlap": False,
            "grid": False,
        }

    def _away(self, magnitude: float) -> float:
        """How many bins a magnitude lies from the middle of the middle bin."""
        inner = self.edges[len(self) // 2 + 1 : -1]
        below = max(i for i, edge in enumerate(inner) if edge <= magnitude)
        part = math.log(magnitude / inner[below]) / math.log(inner[below + 1] / inner[below])
        return 0.5 + below + part


def entry_bins(run: Run, instrument: str, part: str = "") -> EntryBins | None:
    """The bins that the run file tells of an instrument, of a `part` where it has two axes; None if it does not."""
    edges = run.manifest.raw.get("edges")
    found = edges.get(instrument) if isinstance(edges, Mapping) else None
    if part:
        found = found.get(part) if isinstance(found, Mapping) else None
    values = _numbers(found) if isinstance(found, Sequence) and not isinstance(found, str) else []
    ascending = all(low < high for low, high in pairwise(values))
    return EntryBins(tuple(values)) if len(values) > 2 and ascending else None


def _numbers(found: Sequence[Any]) -> list[float]:
    """Edges as numbers, infinite ones are words in JSON; none if one is something else."""
    try:
        values = [float(value) for value in found]
    except (TypeError, ValueError):
        return []
    return [] if any(math.isnan(value) for value in values) else values
