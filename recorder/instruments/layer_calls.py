"""Captures the layers' calls of a step for the instruments of individual gradients, and tells what is covered."""

from __future__ import annotations

import torch
from torch import Tensor

from ..call import Call
from ..context import Context
from ..passes import Pass
from ..plan import Plan, make_plan
from ..step import Step
from .base import Instrument

FED = ("steps.start_slope", "steps.end_slope", "steps.grad_var", "steps.gsnr_sum", "steps.inner_var")
"""Columns that are null where the layers' calls cannot be had."""
SHARED = "several backward passes went through one forward pass: a sample's gradient is their sum, which is not had"


class LayerCalls(Instrument):
    """Watches the modules that the plan names; while there is no plan, all that have parameters in them."""

    name = "layer-calls"
    columns = ()
    serves = True
    needs_layers = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._told: Plan | None = None
        self._stale: list[Tensor | None] = []

    def wants(self, index: int, probed: bool) -> bool:
        return (probed or self.context.update_pending) and not self.context.capture.hopeless

    def begin(self, step: Step) -> None:
        passes = self.context.passes
        passes.begin()
        if passes.plan is None:
            modules = self.context.model.modules()
            watched = replayed = [m for m in modules if next(m.parameters(), None) is not None]
        else:
            watched, replayed = passes.plan.modules, passes.plan.replayed
        self.context.capture.arm(watched, replayed, self.context.probe_memory, thorough=passes.plan is None)

    def before_backward(self, step: Step) -> None:
        """What `.grad` held already is not of this step's samples."""
        gradients = [p.grad for p in self.context.tensors.parameters]
        self._stale = [None if g is None else g.detach().clone() for g in gradients]

    @torch.no_grad()
    def after_backward(self, step: Step) -> None:
        """Take the calls, and the gradient as the backward pass made it: what follows may clip it."""
        pairs = zip(self.context.tensors.parameters, self._stale, strict=True)
        self.context.gradient = [own_gradient(p, stale, step.scale) for p, stale in pairs]
        passes, capture = self.context.passes, self.context.capture
        if passes.plan is not None:
            passes.plan = passes.plan.moving(self._frozen())
        calls, samples = capture.take(), step.micro_batches[-1].samples
        reason = SHARED if step.micro_batches[-1].again else self._obstacle(calls, samples)
        if reason or samples is None:
            passes.complete = False
            self.context.explain(FED, reason)
            return
        if passes.plan is None:
            passes.plan = make_plan(self.context.model, self.context.tensors, self._wanted(), calls, samples)
        passes.passes.append(Pass.of(calls, samples, capture.kept or samples))

    def end(self, step: Step) -> None:
        passes = self.context.passes
        passes.begin()
        self._stale, self.context.gradient = [], None
        if passes.plan is not None and passes.plan is not self._told:
            self._tell(passes.plan)

    def _obstacle(self, calls: list[Call], samples: int | None) -> str:
        """Why the individual gradients of this pass cannot be had; empty if they can."""
        capture, passes = self.context.capture, self.context.passes
        if capture.failure:
            return f"the layers could not be watched: {capture.failure}"
        if capture.overflowed:
            then = "no more are made" if capture.hopeless else f"the next one keeps {capture.share:.2%} of the samples"
            return f"a probe needs more than {self.context.probe_memory / 2**20:.3g} MiB; {then}"
        if samples is None:
            return "the number of samples is unknown: the model's forward was not seen, or may run over time first"
        if not calls:
            return "no layer's output gradient was seen"
        if passes.plan is not None and (name := self._unplanned(passes.plan)):
            passes.plan = None
            return f"other parameters than before received gradients ({name}); the layers are looked at anew"
        if passes.plan is not None and (call := passes.plan.in_doubt(calls, samples)):
            what = f"{type(call.module).__name__} of shape {call.shape}"
            return f"which dimension of the output of {what} runs over the {samples} samples is not certain"
        return ""

    def _unplanned(self, plan: Plan) -> str:
        """Name of a tensor with a gradient that the plan does not know, empty if there is none."""
        known = plan.known
        return next((self.context.tensors.names[i] for i in self._wanted() if i not in known), "")

    def _wanted(self) -> list[int]:
        """Positions of the tensors that the loss reached and that an optimizer will move."""
        held = self.context.held()
        parameters = enumerate(self.context.tensors.parameters)
        return [i for i, p in parameters if p.grad is not None and p.requires_grad and id(p) in held]

    def _frozen(self) -> set[int]:
        """Positions of the tensors that no longer move, of which hooks of layers may still see gradients."""
        return {i for i, p in enumerate(self.context.tensors.parameters) if not p.requires_grad}

    def _tell(self, plan: Plan) -> None:
        """Which share of the parameters is covered, and why not the rest."""
        self._told = plan
        tensors = self.context.tensors
        total = sum(tensors.parameters[i].numel() for i in plan.known)
        without = sum(tensors.parameters[i].numel() for i in plan.uncovered)
        share = 1.0 - without / total if total else 1.0
        uncovered = [{"tensor": tensors.names[i], "reason": reason} for i, reason in plan.uncovered.items()]
        message = f"individual gradients are seen for {share:.2%} of the parameters"
        self.context.once("coverage", message, share=share, uncovered=uncovered)
        if uncovered:
            names = ", ".join(tensors.names[i] for i in plan.uncovered)
            reasons = "; ".join(dict.fromkeys(plan.uncovered.values()))
            self.context.explain(FED, f"no individual gradients for {names}: {reasons}")


def own_gradient(parameter: Tensor, stale: Tensor | None, scale: Tensor | None) -> Tensor:
    """The gradient that the step's passes gave a parameter, dense, in its precision; zeros where they gave none."""
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    gradient = parameter.grad.detach().clone() if stale is None else parameter.grad.detach() - stale
    dense = gradient.to_dense() if gradient.is_sparse else gradient
    return dense if scale is None else dense / scale
