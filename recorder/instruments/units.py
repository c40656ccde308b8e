"""Dead and saturated units of activations, modules and functions alike, over the batch of a probed step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import ACTIVATION_FUNCTIONS, ACTIVATIONS, Bounds
from ..context import Context
from ..hooks import watched
from ..output_hooks import OutputHooks
from ..precision import widest
from ..schema import MODULES
from ..step import Step
from ..tensors import readable
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
        self._inside = False

    def begin(self, step: Step) -> None:
        self._hooks.place_before(self.context.model, self._enter)
        for name, module in self.context.model.named_modules():
            if type(module) in ACTIVATIONS:
                self._hooks.place_before(module, self._ignore)  # the function that it calls
                self._hooks.place(module, partial(self._note_module, name))
            elif module._parameters:
                self._hooks.place(module, partial(self._note_layer, name))
        self._hooks.place(self.context.model, lambda *_: self._leave())

    def before_backward(self, step: Step) -> None:
        """The forward pass is over, if only by an exception."""
        self._leave()

    def before_update(self, step: Step) -> None:
        """A row for each activation; a unit counts as stuck only if it was in every call of the step."""
        for name, found in self._seen.items():
            row = {"step": step.index, "module": name, "unit_count": len(found.dead)}
            shares = {"dead_share": share(found.dead), "saturated_share": share(found.saturated)}
            flat = {} if found.flat is None else {"flat_share": found.flat / found.values}
            self.context.deferred.add("modules", row | shares | flat)

    def leave(self, step: Step) -> None:
        self._leave()
        self._hooks.remove()

    def end(self, step: Step) -> None:
        self._seen = {}
        self._hooks.close()

    def _enter(self) -> None:
        """The model's forward begins: no layer was called yet. What the loss calls later is no activation."""
        self._layer, self._channels, self._inside = "", False, True
        self._listen()

    def _leave(self) -> None:
        self._inside = False
        self._ignore()

    def _listen(self) -> None:
        self.context.on_call = self._note_function

    def _ignore(self) -> None:
        self.context.on_call = None

    def _note_layer(self, name: str, module: nn.Module, _output: object) -> None:
        self._layer, self._channels = name, isinstance(module, _OVER_CHANNELS)

    def _note_function(self, function: Callable[..., Any], output: object) -> None:
        bounds = ACTIVATION_FUNCTIONS.get(function)
        if bounds is not None and watched():
            with self._hooks.guarded():
                self._note(f"{self._layer} ({bounds.name})" if self._layer else bounds.name, bounds, output)

    def _note_module(self, name: str, module: nn.Module, output: object) -> None:
        if self._inside:
            self._listen()
        self._note(name, ACTIVATIONS[type(module)], output)

    def _note(self, name: str, bounds: Bounds, output: object) -> None:
        if isinstance(output, Tensor) and readable(output) and output.numel() and not output.is_complex():
            found, before = stuck(output, bounds, self._channels), self._seen.get(name)
            self._seen[name] = found if before is None or len(before.dead) != len(found.dead) else before & found


@dataclass(frozen=True, slots=True, eq=False)
class Stuck:
    """Whether each unit (units,) is dead, and is saturated, on all samples.

    `flat`: how many of the `values` are at a flat end, 0-d; None where the lower end is dead (ReLU, ReLU6).
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


def stuck(output: Tensor, bounds: Bounds, channels: bool = False) -> Stuck:
    """Which units, and how many values, are at a flat end.

    `output`: (samples,) of one unit, (samples, units), (samples, units, height, width[, depth]); of three dimensions
    (samples, units, length) after a module over `channels`, else (samples, tokens, units). All that a unit answers to
    counts as samples.
    """
    values = output.detach() if output.dim() > 1 else output.detach().reshape(-1, 1)
    unit = 1 if channels or values.dim() in (2, 4, 5) else values.dim() - 1
    samples = tuple(d for d in range(values.dim()) if d != unit)
    low = values.amax(samples) <= bounds.low
    high = values.amin(samples) >= bounds.high if math.isfinite(bounds.high) else torch.zeros_like(low)
    if bounds.low_is_dead:
        return Stuck(low, high, None, values.numel())
    flat = torch.count_nonzero((values <= bounds.low) | (values >= bounds.high))
    return Stuck(torch.zeros_like(low), low | high, flat, values.numel())
