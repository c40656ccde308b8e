"""Ingredients of alpha, the normalised step length: slopes along the update at both of its ends, with their scatter.

Mahsereci & Hennig 2017; Schneider, Dangel & Hennig 2021, section 2.1. The analyzer fits the parabola.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..capture import Call
from ..context import Context
from ..plan import Plan, Unit, make_plan
from ..projection import project
from ..schema import STEPS
from ..step import Step
from .base import Instrument

_SLOPES = ("steps.start_slope", "steps.start_slope_var", "steps.end_slope", "steps.end_slope_var")


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """What one forward and backward pass left.

    Calls by module, its number of samples, and of how many they were kept.
    """

    calls: dict[nn.Module, list[Call]]
    samples: int
    kept: int


class Alpha(Instrument):
    """Projections of the individual gradients on the update of this step and on that of the previous one.

    The update of a probed step is kept until the next step has been differentiated: its gradients are the far end.
    """

    name = "alpha"
    columns = tuple(
        STEPS[name]
        for name in (
            "start_slope",
            "start_slope_var",
            "end_slope",
            "end_slope_var",
            "slope_count",
            "end_slope_total",
        )
    )

    needs_layers = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._plan: Plan | None = None
        self._passes: list[_Pass] = []
        self._previous: list[Tensor] | None = None
        """Update of the step before this one, if that was probed and its optimizer stepped."""
        self._updated_at = -1
        self._complete = False
        """Whether every pass of the step was captured."""

    def wants(self, index: int, probed: bool) -> bool:
        return (probed or self._previous is not None) and not self.context.capture.hopeless

    def begin(self, step: Step) -> None:
        self._passes, self._complete = [], True
        if self._updated_at != step.index - 1:
            self._previous = None
        capture = self.context.capture
        if self._plan is None:
            modules = list(self.context.model.modules())
            capture.arm(modules, modules, self.context.probe_memory)
        else:
            capture.arm(self._plan.modules, self._plan.replayed, self.context.probe_memory)

    def after_backward(self, step: Step) -> None:
        calls = self.context.capture.take()
        samples = step.micro_batches[-1].samples
        if reason := self._obstacle(calls, samples):
            self._complete = False
            self.context.explain(_SLOPES, reason)
            return
        assert samples is not None
        if self._plan is None:
            self._plan = self._planned(calls, samples)
        self._passes.append(_Pass(_by_module(calls), samples, self.context.capture.kept or samples))
        if self._previous is not None:
            self._put_total(step)

    def after_update(self, step: Step) -> None:
        update = self.context.update if step.probed else None
        if self._complete and self._passes and self._plan is not None:
            before = self.context.before or [p.detach() for p in self.context.tensors.parameters]
            self._put(step, "start", update, before)
            self._put(step, "end", self._previous, before)
        self._previous, self._updated_at = update, step.index

    def end(self, step: Step) -> None:
        self._passes = []

    def _obstacle(self, calls: list[Call], samples: int | None) -> str:
        """Why the slopes of this step cannot be had; empty if they can."""
        capture = self.context.capture
        if capture.overflowed:
            limit = self.context.probe_memory / 2**20
            then = "no more are made" if capture.hopeless else f"the next one keeps {capture.share:.2%} of the samples"
            return f"a probe needs more than {limit:.3g} MiB; {then}"
        if samples is None:
            return "the number of samples is unknown: the model's forward was not seen"
        if not calls:
            return "no layer's output gradient was seen (a compiled model?)"
        if self._plan is not None and (missing := self._unplanned()):
            self._plan = None
            return f"other parameters than before received gradients ({missing}); the layers are looked at anew"
        return ""

    def _unplanned(self) -> str:
        """Name of a tensor with a gradient that the plan does not know, empty if there is none."""
        assert self._plan is not None
        known = {i for unit in self._plan.units for i in unit.parameters.values()} | set(self._plan.uncovered)
        return next((self.context.tensors.names[i] for i in self._wanted() if i not in known), "")

    def _wanted(self) -> list[int]:
        """Positions of the tensors that the loss reached and that an optimizer will move."""
        held = self.context.held()
        parameters = enumerate(self.context.tensors.parameters)
        return [i for i, p in parameters if p.grad is not None and id(p) in held]

    def _planned(self, calls: list[Call], samples: int) -> Plan:
        wanted = self._wanted()
        plan = make_plan(self.context.model, self.context.tensors, wanted, calls, samples)
        self._tell(plan, wanted)
        return plan

    def _tell(self, plan: Plan, wanted: Iterable[int]) -> None:
        tensors = self.context.tensors
        total = sum(tensors.parameters[i].numel() for i in wanted)
        without = sum(tensors.parameters[i].numel() for i in plan.uncovered)
        share = 1.0 - without / total if total else 1.0
        uncovered = [{"tensor": tensors.names[i], "reason": reason} for i, reason in plan.uncovered.items()]
        message = f"individual gradients are seen for {share:.2%} of the parameters"
        self.context.once("coverage", message, share=share, uncovered=uncovered)

    @torch.no_grad()
    def _put_total(self, step: Step) -> None:
        """g.d of the previous update from the gradient itself, which sees what no layer shows: penalties, tied uses."""
        assert self._previous is not None
        parameters = self.context.tensors.parameters
        pairs = [(p.grad, d) for p, d in zip(parameters, self._previous, strict=True) if p.grad is not None]
        dots = [(g.to_dense() if g.is_sparse else g).mul(d).sum() for g, d in pairs]
        total = torch.stack([dot.double() if dot.device.type != "mps" else dot for dot in dots]).sum()
        step.put("end_slope_total", total if step.scale is None else total / step.scale)

    def _put(self, step: Step, end: str, direction: list[Tensor] | None, before: list[Tensor]) -> None:
        if direction is None:
            return
        assert self._plan is not None
        parts = [self._projected(one, direction, before) for one in self._passes if not self._plan.uncovered]
        if self._plan.uncovered:
            names = ", ".join(self.context.tensors.names[i] for i in self._plan.uncovered)
            self.context.explain(_SLOPES, f"no individual gradients for {names}")
            return
        each = torch.cat(parts)
        if step.scale is not None:
            each = each / step.scale
        samples, count = sum(one.samples for one in self._passes), len(each)
        step.put("slope_count", count)
        step.put(f"{end}_slope", each.mean() * samples)
        if count > 1:
            step.put(f"{end}_slope_var", each.var() * samples**2)

    def _projected(self, one: _Pass, direction: list[Tensor], before: list[Tensor]) -> Tensor:
        """What each kept sample of a pass adds to g.d, (kept,).

        An individual gradient's projection over all samples.
        """
        assert self._plan is not None
        parts = [
            self._of_unit(unit, call, direction, before, one)
            for unit in self._plan.units
            for call in one.calls.get(unit.module, ())
        ]
        return torch.stack([part if part.device.type == "mps" else part.double() for part in parts]).sum(0)

    def _of_unit(self, unit: Unit, call: Call, direction: list[Tensor], before: list[Tensor], one: _Pass) -> Tensor:
        along = {name: direction[i] for name, i in unit.parameters.items()}
        try:
            return project(call, self._values(unit, before), along, one.samples, one.kept)
        except (ValueError, RuntimeError, NotImplementedError) as error:  # of this module, not of the instrument
            assert self._plan is not None
            self._plan = self._plan.without(unit, f"{type(unit.module).__name__}: {error}")
            self._tell(self._plan, self._wanted())
            return torch.zeros(one.kept, device=direction[0].device)

    def _values(self, unit: Unit, before: list[Tensor]) -> dict[str, Tensor]:
        """The module's parameters as they were when it was called."""
        if unit.linear:
            return {}
        position = self.context.position_of
        named = unit.module.named_parameters(remove_duplicate=False)
        return {name: before[position[id(p)]] if id(p) in position else p.detach() for name, p in named}


def _by_module(calls: Iterable[Call]) -> dict[nn.Module, list[Call]]:
    found: dict[nn.Module, list[Call]] = {}
    for call in calls:
        found.setdefault(call.module, []).append(call)
    return found
