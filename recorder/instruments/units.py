"""Dead and saturated units of activations, modules and functions alike, over the batch of a probed step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..activations import ACTIVATIONS, Range
from ..context import Context
from ..output_hooks import OutputHooks
from ..precision import widest
from ..schema import MODULES
from ..step import Step
from .base import Instrument

_OVER_CHANNELS = (nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.GroupNorm, nn.InstanceNorm1d)
"""Modules whose output of three dimensions has its units in the second."""


class Units(Instrument):
    """Share of the units of each activation that are dead, and that are saturated, on the whole batch.

    A function that the model's forward pass calls is named after the layer with parameters before it: "hidden (relu)".
    """

    name = "units"
    columns = tuple(MODULES[column] for column in ("dead_share", "saturated_share", "flat_share", "unit_count"))
    needs_layers = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = OutputHooks()
        self._seen: dict[str, Stuck] = {}
        self._layer, self._channels = "", False

    def begin(self, step: Step) -> None:
        model, channels = self.context.model, False
        self._hooks.place_before(model, self._listen)
        for name, module in model.named_modules():
            if type(module) in ACTIVATIONS:
                self._hooks.place_before(module, self._ignore)  # the function that it calls
                self._hooks.place(module, partial(self._note_module, name, channels))
            elif module._parameters:
                channels = isinstance(module, _OVER_CHANNELS)
                self._hooks.place(module, partial(self._note_layer, name, channels))
        self._hooks.place(model, lambda *_: self._ignore())

    def before_update(self, step: Step) -> None:
        """A row for each activation; a unit counts as stuck only if it was in every call of the step."""
        for name, found in self._seen.items():
            row = {"step": step.index, "module": name, "unit_count": len(found.dead)}
            shares = {"dead_share": share(found.dead), "saturated_share": share(found.saturated)}
            flat = {} if found.flat is None else {"flat_share": found.flat / found.values}
            self.context.deferred.add("modules", row | shares | flat)

    def leave(self, step: Step) -> None:
        self._ignore()
        self._hooks.remove()

    def end(self, step: Step) -> None:
        self._seen = {}
        self._hooks.close()

    def _listen(self) -> None:
        """What the model calls is an activation; what the loss calls is none."""
        self.context.heard = self._note_function

    def _ignore(self) -> None:
        self.context.heard = None

    def _note_layer(self, name: str, channels: bool, _module: nn.Module, _output: object) -> None:
        self._layer, self._channels = name, channels

    def _note_function(self, reach: Range, output: Tensor) -> None:
        with self._hooks.looking():
            self._note(f"{self._layer} ({reach.name})" if self._layer else reach.name, reach, self._channels, output)

    def _note_module(self, name: str, channels: bool, module: nn.Module, output: Tensor) -> None:
        self._listen()
        self._note(name, ACTIVATIONS[type(module)], channels, output)

    def _note(self, name: str, reach: Range, channels: bool, output: Tensor) -> None:
        if output.numel():
            found, before = stuck(output, reach, channels), self._seen.get(name)
            self._seen[name] = found if before is None or len(before.dead) != len(found.dead) else before & found


@dataclass(frozen=True, slots=True, eq=False)
class Stuck:
    """Whether each unit (units,) is dead, and is saturated, on all samples.

    `flat`: how many of the `values` are at a flat end, 0-d; None of activations that have none.
    """

    dead: Tensor
    saturated: Tensor
    flat: Tensor | None
    values: int

    def __and__(self, other: Stuck) -> Stuck:
        """Of two calls together."""
        flat = None if self.flat is None or other.flat is None else self.flat + other.flat
        return Stuck(self.dead & other.dead, self.saturated & other.saturated, flat, self.values + other.values)


def share(flags: Tensor) -> Tensor:
    """Share of the flags (units,) that are set, 0-d."""
    return flags.to(widest(flags.device)).mean()


def stuck(output: Tensor, reach: Range, channels: bool = False) -> Stuck:
    """Which units are stuck.

    `output`: (samples,) of one unit, (samples, units), (samples, units, height, width[, depth]); of three dimensions
    (samples, units, length) after a module over `channels`, else (samples, tokens, units). All that a unit answers to
    counts as samples.
    """
    values = output.detach() if output.dim() > 1 else output.detach().reshape(-1, 1)
    unit = 1 if channels or values.dim() in (2, 4, 5) else values.dim() - 1
    samples = tuple(d for d in range(values.dim()) if d != unit)
    low = values.amax(samples) <= reach.low
    high = values.amin(samples) >= reach.high if math.isfinite(reach.high) else torch.zeros_like(low)
    if reach.low_is_dead:
        return Stuck(low, high, None, values.numel())
    flat = torch.count_nonzero((values <= reach.low) | (values >= reach.high))
    return Stuck(torch.zeros_like(low), low | high, flat, values.numel())
