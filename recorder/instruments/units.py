"""Dead and saturated units of activation modules, over the batch of a probed step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..context import Context
from ..output_hooks import OutputHooks
from ..precision import widest
from ..schema import MODULES
from ..step import Step
from .base import Instrument


@dataclass(frozen=True, slots=True)
class Range:
    """Between which values a unit answers to its input; at or beyond one of them on all samples it is stuck there."""

    low: float
    high: float
    low_is_dead: bool
    """Whether stuck at the lower end means that nothing passes on (dead) rather than saturated."""


RANGES: Mapping[type[nn.Module], Range] = {
    nn.ReLU: Range(0.0, math.inf, low_is_dead=True),
    nn.ReLU6: Range(0.0, 6.0, low_is_dead=True),
    nn.Hardtanh: Range(-1.0, 1.0, low_is_dead=False),
    nn.Hardsigmoid: Range(0.0, 1.0, low_is_dead=False),
    nn.Tanh: Range(-0.99, 0.99, low_is_dead=False),
    nn.Sigmoid: Range(0.01, 0.99, low_is_dead=False),
}
"""By activation. The soft ones count as stuck where their slope is below a twentieth of the steepest."""


_OVER_CHANNELS = (nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.GroupNorm, nn.InstanceNorm1d)
"""Modules whose output of three dimensions has its units in the second."""


class Units(Instrument):
    """Share of the units of each activation module that are dead, and that are saturated, on the whole batch."""

    name = "units"
    columns = (MODULES["dead_share"], MODULES["saturated_share"], MODULES["unit_count"])
    needs_layers = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = OutputHooks()
        self._seen: dict[str, tuple[Tensor, Tensor]] = {}

    def begin(self, step: Step) -> None:
        channels = False
        for name, module in self.context.model.named_modules():
            if type(module) in RANGES:
                self._hooks.place(module, partial(self._note, name, channels))
            elif module._parameters:
                channels = isinstance(module, _OVER_CHANNELS)

    def before_update(self, step: Step) -> None:
        """A row for each module; a unit counts as stuck only if it was in every call of the step."""
        for name, (dead, saturated) in self._seen.items():
            row = {"step": step.index, "module": name, "unit_count": len(dead)}
            shares = {"dead_share": share(dead), "saturated_share": share(saturated)}
            self.context.deferred.add("modules", row | shares)

    def leave(self, step: Step) -> None:
        self._hooks.remove()

    def end(self, step: Step) -> None:
        self._seen = {}
        self._hooks.close()

    def _note(self, name: str, channels: bool, module: nn.Module, output: Tensor) -> None:
        if not output.numel():
            return
        found = stuck(output, RANGES[type(module)], channels)
        before = self._seen.get(name)
        if before is not None and len(before[0]) == len(found[0]):
            found = before[0] & found[0], before[1] & found[1]
        self._seen[name] = found


def share(flags: Tensor) -> Tensor:
    """Share of the flags (units,) that are set, 0-d."""
    return flags.to(widest(flags.device)).mean()


def stuck(output: Tensor, reach: Range, channels: bool = False) -> tuple[Tensor, Tensor]:
    """Whether each unit is dead, and whether it is saturated, on all samples: two boolean tensors (units,).

    `output`: (samples,) of one unit, (samples, units), (samples, units, height, width[, depth]); of three dimensions
    (samples, units, length) after a module over `channels`, else (samples, tokens, units). All that a unit answers to
    counts as samples.
    """
    values = output.detach() if output.dim() > 1 else output.detach().reshape(-1, 1)
    unit = 1 if channels or values.dim() in (2, 4, 5) else values.dim() - 1
    samples = tuple(d for d in range(values.dim()) if d != unit)
    low = values.amax(samples) <= reach.low
    high = values.amin(samples) >= reach.high if math.isfinite(reach.high) else torch.zeros_like(low)
    return (low, high) if reach.low_is_dead else (torch.zeros_like(low), low | high)
