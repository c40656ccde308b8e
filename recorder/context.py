"""What instruments share: the model and its tensors, and where events go."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from .capture import Capture
from .deferred import Deferred
from .fragility import Fragility
from .passes import Passes
from .tensors import Tensors


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
    ranks: int = 1
    """Processes whose gradients are averaged."""
    sharded: bool = False
    """Whether each rank holds only a part of a parameter."""
    step: int = 0
    """The step that runs, or ran last."""
    histogram_samples: int | Literal["all"] | None = None
    """Samples of a step that histograms of individual gradients count; None for a few."""
    capture: Capture = field(default_factory=Capture)
    passes: Passes = field(default_factory=Passes)
    """The layers' calls of the step, for instruments of individual gradients."""
    on_call: Callable[[Callable[..., Any], object], None] | None = None
    """While it is set, told of each function of torch that the user's code calls, and of what it returned."""
    fragility: Fragility = field(default_factory=Fragility)
    """Of the forward pass that is about to be differentiated."""
    gradient: list[Tensor] | None = None
    """On a step with individual gradients, after its passes: the gradient that they gave each parameter, unclipped."""
    update_pending: bool = False
    """Whether the update of the previous step still waits for the individual gradients at its end."""
    before: list[Tensor] | None = None
    """On a probed step, from the optimizer's step on: copies of the parameters before it."""
    update: list[Tensor] | None = None
    """On a probed step, after the optimizer's step: what it added to each parameter."""
    began: float = field(default_factory=time.perf_counter)
    _told: set[tuple[object, ...]] = field(default_factory=set)

    def event(self, kind: str, message: str, **detail: Any) -> None:
        """Add a row to `events`; 0-d tensors in the detail stay on the device until the next drain."""
        elapsed = time.perf_counter() - self.began
        columns = {"step": self.step, "time": elapsed, "kind": kind, "message": message, "detail": detail}
        self.deferred.add("events", columns)

    def once(self, kind: str, message: str, **detail: Any) -> bool:
        """The same, unless this very message of this kind was told before; whether it is told now."""
        news = (kind, message) not in self._told
        if news:
            self._told.add((kind, message))
            self.event(kind, message, **detail)
        return news

    def explain(self, columns: tuple[str, ...], reason: str) -> None:
        """Say, once for each reason, why columns are null ("steps.start_slope", ...)."""
        self.once("not-measured", f"{', '.join(columns)}: {reason}", columns=list(columns), reason=reason)

    def values_at_calls(self) -> list[Tensor]:
        """The parameters as the step's passes used them, by position; what they are now, where no copy was kept."""
        return self.before or [parameter.detach() for parameter in self.tensors.parameters]

    def note_call(self, function: Callable[..., Any], result: object) -> None:
        """A function of torch was called by the user's code."""
        self.fragility.note(function)
        if self.on_call is not None:
            self.on_call(function, result)

    def groups(self) -> list[dict[str, Any]]:
        """The parameter groups of all optimizers, in order."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def held(self) -> set[int]:
        """Identities of the tensors that the optimizers hold."""
        return {id(parameter) for group in self.groups() for parameter in group["params"]}

    def rates(self) -> tuple[float, ...]:
        """Learning rate of each parameter group, all optimizers in order; NaN for one on an accelerator."""
        return tuple(_number(group.get("lr")) for group in self.groups())


def _number(rate: Any) -> float:
    """A rate as a number; NaN for one that lives on an accelerator, since reading it would synchronise, or is none."""
    if isinstance(rate, Tensor) and rate.device.type != "cpu":
        return float("nan")
    try:
        return float(rate)
    except (TypeError, ValueError):
        return float("nan")
