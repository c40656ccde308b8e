"""Which steps are probed: every one at the start and after a jump of the learning rate, then every n-th."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DENSE_STEPS = 100
"""Most faults show in the first steps, so each of them is probed."""
SPARSER = 16
"""Probes of other instruments to one of an expensive one."""
JUMP_STEPS = 25
"""Steps probed one by one after a jump of the learning rate."""
JUMP = 1.5
"""Factor between two successive learning rates, either way, that counts as a jump."""


@dataclass(slots=True)
class Schedule:
    """Decides step by step; steps count from `first_step` of the attempt."""

    every: int
    dense_steps: int = DENSE_STEPS
    first_step: int = 0
    own: Mapping[str, int] = field(default_factory=dict)
    """Steps between the probes of instruments that have an interval of their own, by name."""
    sparse: frozenset[str] = frozenset()
    """Those among them that are too expensive to probe densely."""
    several_optimizers: bool = False
    """They may take turns in any rhythm: a probe falls on another step of each interval, so as to meet all of them."""
    _dense_until: int = 0
    _rates: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        self._dense_until = self.first_step + self.dense_steps

    def probed(self, step: int, rates: tuple[float, ...]) -> bool:
        """Whether `step` is probed. Call once a step, in order, with the learning rate of each parameter group."""
        if rates != self._rates:
            if self._rates is not None and _jumped(self._rates, rates):
                self._dense_until = max(self._dense_until, step + JUMP_STEPS)
            self._rates = rates
        return step < self._dense_until or self._meets(step, self.every)

    def due(self, step: int) -> frozenset[str]:
        """Instruments with an interval of their own that probe at `step`; ask after `probed`."""
        if not self.own:
            return _NOBODY
        dense = step < self._dense_until
        return frozenset(
            name for name, every in self.own.items() if self._meets(step, every) or (dense and name not in self.sparse)
        )

    def _meets(self, step: int, every: int) -> bool:
        number, within = divmod(step, every)
        return within == (int(number * _GOLDEN % 1 * every) if self.several_optimizers else 0)


_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, less their whole parts, spread evenly and never repeat."""
_NOBODY: frozenset[str] = frozenset()


def _jumped(before: tuple[float, ...], after: tuple[float, ...]) -> bool:
    if len(before) != len(after):
        return True
    return any(max(a, b) > JUMP * min(a, b) for a, b in zip(before, after, strict=True))
