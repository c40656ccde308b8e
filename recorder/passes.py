"""The layers' calls in the forward and backward passes of a step, shared by all instruments of individual gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .capture import Call
from .plan import Plan, Unit
from .projection import project


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One forward and backward pass: calls by module, its number of samples, and how many of them were kept."""

    calls: dict[nn.Module, list[Call]]
    samples: int
    kept: int

    @classmethod
    def of(cls, calls: Iterable[Call], samples: int, kept: int) -> Pass:
        """The calls grouped by module."""
        grouped: dict[nn.Module, list[Call]] = {}
        for call in calls:
            grouped.setdefault(call.module, []).append(call)
        return cls(grouped, samples, kept)


@dataclass(slots=True, eq=False)
class Passes:
    """The passes of the step that runs. A sample's *part* is what it adds to the gradient: g_i over all samples."""

    plan: Plan | None = None
    passes: list[Pass] = field(default_factory=list)
    complete: bool = False
    """Whether every pass so far was captured; otherwise nothing can be said about the step."""

    @property
    def samples(self) -> int:
        """Samples of the step, kept or not."""
        return sum(one.samples for one in self.passes)

    @property
    def usable(self) -> Plan | None:
        """The plan, where the step was captured whole and every parameter is covered."""
        ready = self.complete and self.passes and self.plan is not None and not self.plan.uncovered
        return self.plan if ready else None

    def calls_of(self, unit: Unit) -> Iterator[tuple[Pass, Call]]:
        """Every call of a unit's module, with the pass it was in."""
        return ((one, call) for one in self.passes for call in one.calls.get(unit.module, ()))

    def projected(self, direction: list[Tensor], before: list[Tensor]) -> Tensor | None:
        """g_i.d of every kept sample, (kept,), in float64 where the device has it; None where it cannot be had.

        `direction`, `before`: entries and values of the run's parameter tensors, by position, at the calls.
        """
        parts = [self._of_pass(one, direction, before) for one in self.passes]
        if self.usable is None:
            return None
        return torch.cat([part for part in parts if part is not None]) * self.samples

    def _of_pass(self, one: Pass, direction: list[Tensor], before: list[Tensor]) -> Tensor | None:
        units = self.usable.units if self.usable else ()
        pairs = [(unit, call) for unit in units for call in one.calls.get(unit.module, ())]
        parts = [self._of_call(unit, call, one, direction, before) for unit, call in pairs]
        found = [part for part in parts if part is not None]
        return torch.stack(found).sum(0) if found else None

    def _of_call(
        self, unit: Unit, call: Call, one: Pass, direction: list[Tensor], before: list[Tensor]
    ) -> Tensor | None:
        along = {name: direction[i] for name, i in unit.parameters.items()}
        try:
            part = project(call, unit.values(before), along, one.samples, one.kept)
        except (ValueError, RuntimeError, NotImplementedError) as error:  # of this module, not of ours
            self.give_up(unit, f"{type(unit.module).__name__}: {error}")
            return None
        return part if part.device.type == "mps" else part.double()

    def give_up(self, unit: Unit, reason: str) -> None:
        """Take a unit that turned out not to be projectable out of the plan."""
        assert self.plan is not None
        self.plan = self.plan.without(unit, reason)
