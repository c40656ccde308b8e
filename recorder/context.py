"""What instruments share: the model and its tensors, and where events go."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from .capture import Capture
from .deferred import Deferred


@dataclass(frozen=True, slots=True, eq=False)
class Tensors:
    """The parameter tensors of a run, each once, in a fixed order that positions refer to."""

    names: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]

    @classmethod
    def of(cls, model: nn.Module, loss_fn: object | None) -> Tensors:
        """Those of the model, then those of the loss where it is a module with parameters of its own."""
        named = dict(model.named_parameters())
        known = {id(parameter) for parameter in named.values()}
        if isinstance(loss_fn, nn.Module):
            own = loss_fn.named_parameters(prefix="loss_fn")
            named |= {name: parameter for name, parameter in own if id(parameter) not in known}
        return cls(tuple(named), tuple(named.values()))

    def __len__(self) -> int:
        return len(self.names)


@dataclass(eq=False)
class Context:
    """Handed to every instrument. Events may carry device tensors: they are resolved at the next drain."""

    model: nn.Module
    optimizers: tuple[Optimizer, ...]
    loss_fn: object | None
    tensors: Tensors
    deferred: Deferred
    probe_memory: int
    """Bytes that a probe may hold."""
    hooks: bool = True
    """Whether modules may be hooked; not those of a compiled model, which would compile again."""
    step: int = 0
    """The step that runs, or ran last."""
    capture: Capture = field(default_factory=Capture)
    before: list[Tensor] | None = None
    """On a probed step, from the optimizer's step on: copies of the parameters before it."""
    update: list[Tensor] | None = None
    """On a probed step, after the optimizer's step: what it added to each parameter."""
    began: float = field(default_factory=time.perf_counter)
    _told: set[tuple[object, ...]] = field(default_factory=set)

    @cached_property
    def position_of(self) -> Mapping[int, int]:
        """Position of a parameter tensor by its `id`."""
        return {id(parameter): i for i, parameter in enumerate(self.tensors.parameters)}

    def name_of(self, tensor: Tensor) -> str | None:
        """Name of a parameter tensor, None for any other tensor."""
        position = self.position_of.get(id(tensor))
        return None if position is None else self.tensors.names[position]

    def event(self, kind: str, message: str, **detail: Any) -> None:
        """Add a row to `events`; 0-d tensors in the detail stay on the device until the next drain."""
        elapsed = time.perf_counter() - self.began
        columns = {"step": self.step, "time": elapsed, "kind": kind, "message": message, "detail": detail}
        self.deferred.add("events", columns)

    def once(self, kind: str, message: str, **detail: Any) -> None:
        """The same, unless this very message of this kind was told before."""
        if (kind, message) not in self._told:
            self._told.add((kind, message))
            self.event(kind, message, **detail)

    def explain(self, columns: tuple[str, ...], reason: str) -> None:
        """Say, once for each reason, why columns are null ("steps.start_slope", ...)."""
        self.once("not-measured", f"{', '.join(columns)}: {reason}", columns=list(columns), reason=reason)

    def held(self) -> set[int]:
        """Identities of the tensors that the optimizers hold."""
        groups = (group for optimizer in self.optimizers for group in optimizer.param_groups)
        return {id(parameter) for group in groups for parameter in group["params"]}

    def rates(self) -> tuple[float, ...]:
        """Learning rate of each parameter group, all optimizers in order.

        Reading a tensor rate costs nothing on the CPU.
        """
        groups = (group for optimizer in self.optimizers for group in optimizer.param_groups)
        return tuple(_number(group.get("lr")) for group in groups)


def _number(rate: Any) -> float:
    """A rate as a number; NaN for one that lives on an accelerator, since reading it would synchronise."""
    if isinstance(rate, Tensor):
        return float(rate) if rate.device.type == "cpu" else float("nan")
    return float(rate) if rate is not None else float("nan")
