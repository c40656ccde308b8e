"""The layers' calls in the forward and backward passes of a step, shared by all instruments of individual gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .call import Call
from .plan import Plan, Unit
from .precision import widest
from .projection import project

if TYPE_CHECKING:
    from .second_moments import SecondMoments


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One forward and backward pass: calls by module, its number of samples, and how many of them were kept."""

    calls: dict[nn.Module, list[Call]]
    samples: int
    kept: int
    _supplied: dict[Unit, list[Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, calls: Iterable[Call], samples: int, kept: int) -> Pass:
        """The calls grouped by module."""
        grouped: dict[nn.Module, list[Call]] = {}
        for call in calls:
            grouped.setdefault(call.module, []).append(call)
        return cls(grouped, samples, kept)

    def supply(self, group: Sequence[Unit], chunks: Sequence[Sequence[Tensor]]) -> None:
        """Hand in what a group of units adds to the projections on all directions asked for, by chunks of samples.

        Without it, or where it is not of all the samples, the units project themselves.
        """
        found = [torch.cat(chunk).to(widest(chunk[0].device)) for chunk in zip(*chunks, strict=True)]
        if found and len(found[0]) == self.kept:
            self._supplied.update({unit: found if unit is group[0] else [] for unit in group})

    def supplied(self, unit: Unit) -> list[Tensor] | None:
        """What was handed in for a unit; nothing for one whose group's first unit has it, None without any."""
        return self._supplied.get(unit)


@dataclass(slots=True, eq=False)
class Passes:
    """The passes of the step that runs. A sample's *part* is what it adds to the gradient: g_i over all samples."""

    plan: Plan | None = None
    passes: list[Pass] = field(default_factory=list)
    complete: bool = False
    """Whether every pass so far was captured; otherwise nothing can be said about the step."""
    moments: list[SecondMoments] | None = None
    """Second moments that several instruments of the step look at, once they are made; None where one does at most."""
    _asked: dict[str, list[Tensor]] = field(default_factory=dict)
    _answers: dict[str, Tensor] | None = None

    def begin(self) -> None:
        """Forget the previous step."""
        self.passes, self.complete, self.moments = [], True, None
        self._asked, self._answers = {}, None

    def ask(self, name: str, direction: list[Tensor] | None) -> None:
        """Ask for the projections of the individual gradients on a direction; None asks for nothing."""
        if direction is not None:
            self._asked[name] = direction

    def answer(self, name: str, before: list[Tensor]) -> Tensor | None:
        """The projections asked for under a name, (kept,); None where they cannot be had, or nobody asked.

        All that was asked is computed at the first answer, in one go.
        """
        if self._answers is None:
            found = self._projected(self.asked, before) if self._asked and self.usable else None
            self._answers = dict(zip(self._asked, found, strict=True)) if found else {}
        return self._answers.get(name)

    @property
    def asked(self) -> list[list[Tensor]]:
        """The directions asked for."""
        return list(self._asked.values())

    @property
    def samples(self) -> int:
        """Samples of the step, kept or not."""
        return sum(one.samples for one in self.passes)

    @property
    def usable(self) -> Plan | None:
        """The plan, where the step was captured whole and every parameter is covered."""
        ready = self.complete and self.passes and self.plan is not None and not self.plan.uncovered
        return self.plan if ready else None

    @property
    def groups(self) -> list[list[Unit]]:
        """The units of the plan, together where they share a tensor (tied weights)."""
        return [] if self.plan is None else self.plan.groups

    def _projected(self, directions: Sequence[list[Tensor]], before: list[Tensor]) -> list[Tensor] | None:
        """g_i.d of every kept sample for each direction d, (kept,) in float64 where the device has it.

        None where they cannot be had. `directions`, `before`: entries and values of the run's parameter tensors, by
        position, at the calls. Several directions at once cost less than one after the other.
        """
        device = before[0].device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            parts = [self._of_pass(one, directions, before) for one in self.passes]
        if self.usable is None:
            return None
        by_direction = zip(*[part for part in parts if part is not None], strict=True)
        return [torch.cat(each) * self.samples for each in by_direction]

    def _of_pass(self, one: Pass, directions: Sequence[list[Tensor]], before: list[Tensor]) -> list[Tensor] | None:
        units = self.usable.units if self.usable else ()
        supplied = [one.supplied(unit) for unit in units]
        left = [unit for unit, parts in zip(units, supplied, strict=True) if parts is None]
        pairs = [(unit, call) for unit in left for call in one.calls.get(unit.module, ())]
        parts = [self._of_call(unit, call, one, directions, before) for unit, call in pairs]
        found = [part for part in (*supplied, *parts) if part]
        return [torch.stack(each).sum(0) for each in zip(*found, strict=True)] if found else None

    def _of_call(
        self, unit: Unit, call: Call, one: Pass, directions: Sequence[list[Tensor]], before: list[Tensor]
    ) -> list[Tensor] | None:
        along = [{name: direction[i] for name, i in unit.parameters.items()} for direction in directions]
        try:
            parts = project(call, unit.values(before), along, one.samples, one.kept)
        except (ValueError, RuntimeError, NotImplementedError) as error:  # of this module, not of ours
            self.give_up([unit], error)
            return None
        return [part.to(widest(part.device)) for part in parts]

    def give_up(self, units: Sequence[Unit], error: Exception) -> None:
        """Take units whose parts turned out not to be had out of the plan."""
        assert self.plan is not None
        for unit in units:
            self.plan = self.plan.without(unit, f"{type(unit.module).__name__}: {error}")
