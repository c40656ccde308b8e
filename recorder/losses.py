"""The individual losses of a batch, read off the functional loss that the user's code calls.

Whatever the reduction, class weights or ignored targets, the losses of the samples are scaled so that their mean is the
loss that was differentiated: what one sample adds to the mean is what the optimizer sees of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .precision import widened, widest
from .terms import beside, factor_of, shares_nodes
from .written import WrittenLosses

FUNCTIONS: Mapping[Callable[..., Tensor], inspect.Signature] = {
    function: inspect.signature(function)
    for function in (
        F.cross_entropy,
        F.nll_loss,
        F.mse_loss,
        F.l1_loss,
        F.smooth_l1_loss,
        F.huber_loss,
        F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
        F.kl_div,
        F.poisson_nll_loss,
        F.gaussian_nll_loss,
        F.soft_margin_loss,
        F.multilabel_soft_margin_loss,
        F.multi_margin_loss,
        F.hinge_embedding_loss,
        F.cosine_embedding_loss,
        F.margin_ranking_loss,
        F.triplet_margin_loss,
    )
}
"""Losses whose element losses are had by `reduction="none"`; not ctc_loss, whose mean weighs samples by length."""

_OLD_REDUCTION = ("reduction", "size_average", "reduce")


@dataclass(frozen=True, slots=True, eq=False)
class LossCall:
    """One call of a functional loss that was seen, or of one written out that does the same."""

    function: Callable[..., Tensor]
    arguments: Mapping[str, Any]
    result: Tensor

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    @property
    def output(self) -> Tensor | None:
        """The first tensor argument, what the model said, with its graph."""
        return next((v for v in self.arguments.values() if isinstance(v, Tensor)), None)

    @property
    def prediction(self) -> Tensor | None:
        """The same, detached."""
        return None if self.output is None else self.output.detach()

    @property
    def target(self) -> Tensor | None:
        """The target, detached; None for losses without one."""
        target = self.arguments.get("target")
        return target.detach() if isinstance(target, Tensor) else None

    def elements(self) -> Tensor:
        """The unreduced losses, detached, at least in float32."""
        arguments = {name: widened(value) for name, value in self.arguments.items() if name not in _OLD_REDUCTION}
        if self.function in (F.mse_loss, F.l1_loss):  # which warn of it where nobody asked
            names = ("input", "target")
            together = torch.broadcast_tensors(*(arguments[name] for name in names))
            arguments |= zip(names, together, strict=True)
        with torch.no_grad():
            return self.function(**arguments, reduction="none")


class LossWatch(TorchFunctionMode):
    """While entered, notes the losses that are called or written out. It changes nothing about them.

    `note_call` is told of every function that is called, and of what it returned.
    """

    def __init__(self, note_call: Callable[[Callable[..., Any], object], None] | None = None) -> None:
        super().__init__()
        self._note_call = note_call
        self.failure: Exception | None = None
        """What went wrong with taking note, if anything did."""
        self.calls: list[LossCall] = []
        """Those that were called."""
        self.pairs: tuple[Tensor, Tensor] | None = None
        """Predictions and targets that were broadcast to more, before the loss that was asked for last."""
        self._written = WrittenLosses()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if torch.compiler.is_compiling():  # which traces this too, and again whenever what is kept here changes
            return result
        try:
            self._note(func, args, kwargs or {}, result)
        except Exception as error:  # never the reason that the user's code fails
            self.failure = self.failure or error
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self._note_call is not None:
            self._note_call(func, result)
        if func in FUNCTIONS and isinstance(result, Tensor) and result.requires_grad:
            bound = FUNCTIONS[func].bind(*args, **kwargs)
            self.calls.append(LossCall(func, dict(bound.arguments), result))
        else:
            self._written.note(func, args, kwargs, result)

    def take(self, loss: Tensor) -> list[LossCall]:
        """The losses that were called since the last time; if none was, those that `loss` (with graph) was made of."""
        written = [] if self.calls else self._written.behind(loss)
        calls, self.calls = self.calls, []
        self.pairs = self._written.pairs
        self._written.forget()
        return calls or [LossCall(draft.function, draft.arguments, result) for draft, result in written]


def is_stateless(loss_fn: object) -> TypeGuard[Callable[..., Tensor]]:
    """Whether a loss is one of torch's own, which keep no state and draw no random numbers."""
    return type(loss_fn).__module__ == "torch.nn.modules.loss" or any(loss_fn is function for function in FUNCTIONS)


def individual_losses(
    call: LossCall, loss: Tensor, inputs: Sequence[Sequence[int]], *, stated: bool = False, by_time: bool = False
) -> tuple[Tensor | None, str]:
    """The losses of the samples (samples,), their mean being `loss`; or None and the reason.

    `loss`: the 0-d loss that is differentiated, with its graph. `inputs`: shapes of the model's inputs.
    `stated`: the user says that the call made the loss, so that the graph need not show it. `by_time`: the inputs may
    run over time first.
    """
    factor = 1.0 if stated else factor_of(call.result, loss)
    if factor is None:
        return None, f"the loss is no multiple of the one call of {call.name} that was seen, nor a sum with it"
    if not stated and shares_nodes(beside(call.result, loss), call.result):
        return None, f"what is added to {call.name} depends on the samples too, in a way that was not seen"
    elements = call.elements()
    count = sample_count(elements.shape, inputs, by_time=by_time)
    if count is None:
        shapes = ", ".join(str(tuple(shape)) for shape in inputs)
        return None, f"losses of shape {tuple(elements.shape)} cannot be assigned to inputs of shape {shapes}"
    each = elements.reshape(count, -1).sum(1)
    part = loss.detach() if stated else call.result.detach().sum() * factor
    return _scaled(each, part) + (loss.detach() - part), ""  # what is added (a penalty) is the same for every sample


def part_of(loss: Tensor, calls: Sequence[LossCall]) -> Tensor | None:
    """The part of `loss` (0-d, with its graph) that the calls make, 0-d; None where it is no sum with multiples of one.

    What is left of the loss are terms of the user's own: penalties, divergences, an entropy.
    """
    factors = [(call.result.detach(), factor_of(call.result, loss)) for call in calls]
    parts = [result.sum() * factor for result, factor in factors if factor is not None]
    return torch.stack(parts).sum() if parts else None


def principal_target(loss: Tensor, calls: Sequence[LossCall]) -> Tensor | None:
    """The target that weighs most where one prediction is compared with several, as by mixup; None if it is not.

    All calls must be of one function, with the same prediction and targets of one shape.
    """
    if len(calls) < 2:
        return None
    targets = [target for call in calls if (target := call.target) is not None]
    factors = [factor for call in calls if (factor := factor_of(call.result, loss)) is not None]
    predictions, kinds = {id(call.output) for call in calls}, {(t.shape, t.dtype) for t in targets}
    alike = {call.function for call in calls}, predictions, kinds
    if not len(targets) == len(factors) == len(calls) or any(len(kind) > 1 for kind in alike):
        return None
    zero = torch.zeros((), device=targets[0].device)
    heaviest = torch.stack([zero + factor for factor in factors]).argmax(0, keepdim=True)
    return torch.stack(targets).index_select(0, heaviest).squeeze(0)


def sample_count(losses: Sequence[int], inputs: Sequence[Sequence[int]], *, by_time: bool = False) -> int | None:
    """How many samples unreduced losses of a shape belong to, given the shapes of the model's inputs.

    Losses (B, ...) of an input (B, ...) or (T, B, ...) belong to B samples, and so do token losses (B * T, ...) of an
    input (B, T, ...). With `by_time` inputs may run over time first: then it is unknown to whom token losses belong.
    """
    if not losses or losses[0] == 0:
        return None
    n = losses[0]
    shapes = [shape for shape in inputs if shape]
    if by_time and any(len(shape) > 1 and tuple(losses[:2]) == tuple(shape[:2]) for shape in shapes):
        return None
    if not shapes or any(n in shape[:2] for shape in shapes):
        return n
    first = shapes[0][0]
    return first if first > 0 and n % first == 0 and not by_time else None


def _scaled(each: Tensor, mean: Tensor) -> Tensor:
    """Losses scaled to a mean, in float64 where the device has it; all-zero losses stay zero."""
    each = each.to(widest(each.device))
    present = each.mean()
    return each * torch.where(present == 0, torch.zeros_like(present), mean / present)
