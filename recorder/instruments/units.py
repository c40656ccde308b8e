"""Dead and saturated units of activation modules, over the batch of a probed step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..capture import watched
from ..context import Context
from ..hooks import Hook
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


_INFINITE = float("inf")
RANGES: Mapping[type[nn.Module], Range] = {
    nn.ReLU: Range(0.0, _INFINITE, low_is_dead=True),
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
        self._handles: list[RemovableHandle] = []
        self._seen: dict[str, tuple[Tensor, Tensor]] = {}
        self._failure: Exception | None = None

    def begin(self, step: Step) -> None:
        channels = False
        for name, module in self.context.model.named_modules():
            if type(module) in RANGES:
                self._handles.append(module.register_forward_hook(Hook(self._watch(name, channels))))
            elif module._parameters:
                channels = isinstance(module, _OVER_CHANNELS)

    def before_update(self, step: Step) -> None:
        """A row for each module; a unit counts as stuck only if it was in every call of the step."""
        for name, (dead, saturated) in self._seen.items():
            row = {"step": step.index, "module": name, "unit_count": len(dead)}
            shares = {"dead_share": share(dead), "saturated_share": share(saturated)}
            self.context.deferred.add("modules", row | shares)

    def leave(self, step: Step) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def end(self, step: Step) -> None:
        self.leave(step)
        failure, self._failure = self._failure, None
        self._seen = {}
        if failure is not None:
            raise failure

    def _watch(self, name: str, channels: bool) -> Callable[[nn.Module, Any, Any], None]:
        def note(module: nn.Module, _: Any, output: Any) -> None:
            try:
                if watched():
                    with torch._C.DisableTorchFunction(), torch.no_grad():
                        self._note(name, stuck(output, RANGES[type(module)], channels))
            except Exception as error:  # the user's forward pass goes on
                self._failure = error

        return note

    def _note(self, name: str, found: tuple[Tensor, Tensor]) -> None:
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
    output = output if output.dim() > 1 else output.reshape(-1, 1)
    unit = 1 if channels or output.dim() in (2, 4, 5) else output.dim() - 1
    values = output.detach().movedim(unit, 0).flatten(1)
    low, high = (values <= reach.low).all(1), (values >= reach.high).all(1)
    nothing = torch.zeros_like(low)
    return (low if reach.low_is_dead else nothing), (high if reach.low_is_dead else low | high)
