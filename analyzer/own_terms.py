"""What the loss holds beside the losses that were seen being called: penalties, divergences, an entropy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from .memo import per_run
from .noise import scalar
from .run import Run

PARTS = 5
"""Stretches of a run that are compared."""
NEGATIVE = 0.05
"""Share of the probes with negative own terms; penalties never are."""
LEAST = 10
"""Probes without which nothing can be said."""


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """Means over successive fifths of the probes: of the part of the loss that was seen, and of what is left of it."""

    part: tuple[float, ...]
    own: tuple[float, ...]
    negative: float
    """Share of the probes at which the own terms are negative."""

    @property
    def share(self) -> float:
        """Share of the own terms in the loss at the end."""
        return self.own[-1] / (self.own[-1] + self.part[-1])

    @property
    def settled(self) -> bool:
        """Whether the part that was seen no longer falls: by less than a twentieth from one fifth to the last."""
        return self.part[-1] > 0.95 * self.part[-2]

    @property
    def of_both_signs(self) -> bool:
        """Whether the own terms are negative now and then: as a policy's objective beside the error of a critic."""
        return self.negative > NEGATIVE

    def runs_away(self, growth: float) -> bool:
        """Whether the own terms are negative, ever more so, `growth` times at last, while the other part gets worse."""
        sinks = all(later < earlier for earlier, later in pairwise(self.own))
        worse = self.part[-1] > 1.1 * min(self.part)
        return sinks and self.own[1] < 0 and self.own[-1] < growth * self.own[1] and worse


def without_floor(run: Run) -> bool:
    """Whether the loss holds terms of both signs, so that how far it can fall is not known."""
    terms = own_terms(run)
    return terms is not None and terms.of_both_signs


@per_run
def own_terms(run: Run) -> OwnTerms | None:
    """None where there are none, or the parts are not known."""
    frame = run.frame("steps", "loss_part", "loss_beside").filter(pl.col("loss_beside").is_finite())
    if frame.height < LEAST or (frame["loss_beside"] == 0).all():
        return None
    fifth = frame.height // PARTS
    parts = [frame.slice(i * fifth, fifth) for i in range(PARTS)]
    part, own = (tuple(scalar(p[name].mean()) for p in parts) for name in ("loss_part", "loss_beside"))
    return OwnTerms(part, own, scalar((frame["loss_beside"] < 0).mean()))
