"""Norms of what each parameter tensor holds: gradients at every step; parameters, updates and distances at probes."""

from __future__ import annotations

from operator import is_

import torch
from torch import Tensor

from ..context import Context
from ..schema import LAYERS, STEPS
from ..step import Step
from .base import Instrument


def norms(tensors: list[Tensor]) -> list[Tensor]:
    """Euclidean norm of each tensor, 0-d, all on the device of the first; of a sparse one over its coalesced values.

    Norms of half-precision tensors are accumulated and returned in float32.
    """
    if not tensors:
        return []
    half = any(t.dtype in (torch.float16, torch.bfloat16) for t in tensors)
    try:
        found = list(torch._foreach_norm(tensors, 2, dtype=torch.float32) if half else torch._foreach_norm(tensors))
    except (RuntimeError, NotImplementedError):  # sparse ones among them
        found = [torch.linalg.vector_norm(t.coalesce().values() if t.is_sparse else t) for t in tensors]
    device = found[0].device
    if device.type == "cpu":
        return found
    return [n if n.device == device else n.to(device, non_blocking=True) for n in found]


class GradientNorms(Instrument):
    """Norms of the gradients after the backward pass, when the optimizer steps, and of what was left from before."""

    name = "gradient-norms"
    columns = (
        STEPS["grad_norm"],
        STEPS["grad_norm_clipped"],
        STEPS["stale_grad_norm"],
        LAYERS["grad_norm"],
        LAYERS["grad_norm_clipped"],
    )
    every_step = True
    needs_whole = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._parameters = context.tensors.parameters
        self._seen: list[Tensor] = []
        self._versions: list[int] = []

    def before_backward(self, step: Step) -> None:
        stale = [g for p in self._parameters if (g := p.grad) is not None]
        if stale:
            step.put("stale_grad_norm", torch.stack(norms(stale)).square().sum().sqrt())

    def after_backward(self, step: Step) -> None:
        self._seen, self._versions = self._record(step, "grad_norm", step.scale)

    def before_update(self, step: Step) -> None:
        gradients = [g for p in self._parameters if (g := p.grad) is not None]
        same = len(gradients) == len(self._seen) and all(map(is_, gradients, self._seen))
        if not same or [g._version for g in gradients] != self._versions:
            self._record(step, "grad_norm_clipped", None)

    def end(self, step: Step) -> None:
        self._seen = []

    def _record(self, step: Step, column: str, scale: Tensor | None) -> tuple[list[Tensor], list[int]]:
        gradients = [p.grad for p in self._parameters]
        present = [g for g in gradients if g is not None]
        values = norms(present)
        if scale is not None and values:
            values = list(torch._foreach_div(values, scale.to(values[0].device)))
        positions = (
            None if len(present) == len(gradients) else tuple(i for i, g in enumerate(gradients) if g is not None)
        )
        step.put_tensors(column, values, positions)
        return present, [g._version for g in present]


class Updates(Instrument):
    """Norms of the parameters, of the update the optimizer made, and of the distance from the first recorded values.

    It leaves the parameters before the update and the update itself for other instruments of the step.
    """

    name = "updates"
    columns = (LAYERS["param_norm"], LAYERS["update_norm"], LAYERS["distance"], STEPS["update_norm"])
    serves = True
    needs_whole = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._parameters = context.tensors.parameters
        self._first: list[Tensor] | None = None

    @torch.no_grad()
    def before_backward(self, step: Step) -> None:
        self._keep_first()
        self._look_for_strangers()

    def _keep_first(self) -> None:
        if self._first is None:
            self._first = [p.detach().clone() for p in self._parameters]

    def _look_for_strangers(self) -> None:
        """Tell of parameters that the model has now and did not have when the recorder began: they have no rows."""
        known = self.context.tensors.position_of
        strangers = [name for name, p in self.context.model.named_parameters() if id(p) not in known]
        if strangers:
            reason = f"{', '.join(strangers)}: not among the parameters that the model had when the recorder began"
            self.context.explain(("layers.grad_norm", "layers.param_norm", "layers.update_norm"), reason)

    @torch.no_grad()
    def before_update(self, step: Step) -> None:
        if not self._parameters:
            return
        self._keep_first()  # here already where a closure is differentiated within the optimizer's step
        self.context.before = [p.detach().clone() for p in self._parameters]
        step.put_tensors("param_norm", norms(self.context.before))
        step.put_tensors("distance", norms(list(torch._foreach_sub(self.context.before, self._first or []))))

    @torch.no_grad()
    def after_update(self, step: Step) -> None:
        if self.context.before is None:
            return
        self.context.update = list(torch._foreach_sub([p.detach() for p in self._parameters], self.context.before))
        step.put_tensors("update_norm", norms(self.context.update))
