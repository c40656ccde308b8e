"""Losses that the user's code writes out in elementary operations, as `((prediction - target) ** 2).mean()`.

They are told by what the operations are given: a difference of two tensors of which one is differentiated, its square
or absolute value, and the reduction to a number; or log_softmax, its entries at the targets, and the reduction. Of
other formulas only this is told: whether predictions and targets met that are as many, but broadcast to more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from .graph import Walk
from .terms import factor_of

NEAR = 200
"""Nodes behind a loss among which errors are looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A tensor on its way to being a loss. `errors`: a weighted sum of the errors of single entries."""

    stage: Literal["difference", "log-probabilities", "errors"]
    prediction: Tensor
    target: Tensor | None = None
    function: Callable[..., Tensor] = F.mse_loss
    """What torch calls such a loss."""
    count: int = 1
    """Errors of single entries that there are."""
    weight: float = 1.0
    """Of each error in an entry of the tensor."""
    whole: bool = False
    """Whether the tensor has one entry, of all errors."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Those that make torch's function do the same, but for `own` reductions."""
        mean = self.whole and math.isclose(self.weight * self.count, 1.0)
        reduction = "mean" if mean else "sum" if self.whole and self.weight == 1.0 else "own"
        return {"input": self.prediction, "target": self.target, "reduction": reduction}


class WrittenLosses:
    """Takes note of operations, one after the other, as they are carried out."""

    def __init__(self) -> None:
        self._drafts: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._errors: dict[int, Tensor] = {}
        """Errors from which no others were made, by id: nobody else may hold them."""
        self.pairs: tuple[Tensor, Tensor] | None = None
        """A prediction and a target, of as many entries, that an operation between elements made more of."""

    def note(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Take note of one."""
        name = getattr(func, "__name__", "").strip("_")
        step = _STEPS.get(name)
        if not args or not isinstance(result, Tensor) or not result.requires_grad:
            return
        if name in _BETWEEN_ELEMENTS:
            self.pairs = _pairs(args, result) or self.pairs
        if step is None:
            return
        before = self._drafts.get(args[0]) if isinstance(args[0], Tensor) else None
        found = step(before, args, kwargs, result)
        if found is None:
            return
        self._drafts[result] = replace(found, whole=result.dim() == 0)
        if found.stage == "errors":
            self._errors.pop(id(args[0]), None)
            self._errors[id(result)] = result

    def behind(self, loss: Tensor) -> list[tuple[Draft, Tensor]]:
        """The errors that a loss was made of, each with the tensor that is nearest to the loss.

        Those that count differently, as with the advantages of a policy gradient, are no loss that torch has.
        """
        errors = {result.grad_fn: result for result in self._errors.values()}
        near = [errors[node] for node in islice(Walk(loss) if errors else (), NEAR) if node in errors]
        return [(self._drafts[e], e) for e in near if self._drafts[e].whole or factor_of(e, loss) is not None]

    def forget(self) -> None:
        """Forget what was noted."""
        self._drafts, self._errors, self.pairs = WeakIdKeyDictionary(), {}, None


def _compared(args: Sequence[Any]) -> tuple[Tensor, Tensor] | None:
    """A prediction and a target, in either order. Parameters are no predictions: a penalty draws them."""
    tensors = [arg for arg in args[:2] if isinstance(arg, Tensor) and arg.dim() > 0]
    predictions = [tensor for tensor in tensors if tensor.requires_grad and not tensor.is_leaf]
    targets = [tensor for tensor in tensors if not tensor.requires_grad]
    return (predictions[0], targets[0]) if predictions and targets else None


def _pairs(args: Sequence[Any], result: Tensor) -> tuple[Tensor, Tensor] | None:
    """As (n, 1) and (n,) do. Who adds a dimension to both means it."""
    found = _compared(args)
    if found is None or found[0].dim() == found[1].dim() or found[0].numel() != found[1].numel():
        return None
    return found if result.numel() > found[0].numel() else None


def _subtracted(_: Draft | None, args: Sequence[Any], _kwargs: Any, _result: Any) -> Draft | None:
    found = _compared(args)
    return Draft("difference", *found) if found and found[1].is_floating_point() else None


def _squared(before: Draft | None, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Draft | None:
    exponent = args[1] if len(args) > 1 else kwargs.get("exponent", 2)
    if before is None or before.stage != "difference" or isinstance(exponent, Tensor) or exponent != 2:
        return None
    return replace(before, stage="errors", count=result.numel())


def _absolute(before: Draft | None, _args: Any, _kwargs: Any, result: Tensor) -> Draft | None:
    if before is None or before.stage != "difference":
        return None
    return replace(before, stage="errors", count=result.numel(), function=F.l1_loss)


def _multiplied(before: Draft | None, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Draft | None:
    """A difference times itself, or errors times a number."""
    if len(args) > 1 and args[0] is args[1]:
        return _squared(before, args[:1], {}, result)
    return _weighted(before, args[1] if len(args) > 1 else kwargs.get("other"))


def _divided(before: Draft | None, args: Sequence[Any], kwargs: Mapping[str, Any], _result: Any) -> Draft | None:
    divisor = args[1] if len(args) > 1 else kwargs.get("other")
    return _weighted(before, 1 / divisor) if isinstance(divisor, int | float) and divisor else None


def _negated(before: Draft | None, _args: Any, _kwargs: Any, _result: Any) -> Draft | None:
    return _weighted(before, -1)


def _averaged(before: Draft | None, args: Sequence[Any], _kwargs: Any, result: Tensor) -> Draft | None:
    return _weighted(before, result.numel() / args[0].numel()) if before is not None and args[0].numel() else None


def _summed(before: Draft | None, _args: Any, _kwargs: Any, _result: Any) -> Draft | None:
    return _weighted(before, 1)


def _weighted(before: Draft | None, factor: object) -> Draft | None:
    """Errors times a number; None for what is no error yet, or is multiplied by tensors."""
    if before is None or before.stage != "errors" or not isinstance(factor, int | float):
        return None
    return replace(before, weight=before.weight * factor)


def _logarithms(_: Draft | None, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Draft | None:
    """Of the probabilities of classes, (samples, classes)."""
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    return Draft("log-probabilities", result) if result.dim() == 2 and dim in (1, -1) else None


def _diagonal(before: Draft | None, _args: Any, _kwargs: Any, result: Tensor) -> Draft | None:
    """The target of each sample is the class of its number, as where pairs of views are to find each other."""
    if before is None or before.stage != "log-probabilities" or result.dim() != 1:
        return None
    target = torch.arange(result.numel(), device=result.device)
    return Draft("errors", before.prediction, target, F.nll_loss, count=result.numel(), weight=-1.0)


def _at_targets(before: Draft | None, args: Sequence[Any], kwargs: Mapping[str, Any], _result: Any) -> Draft | None:
    """`gather(1, targets[:, None])`, or `[rows, targets]`."""
    index = args[-1] if len(args) > 1 else kwargs.get("index")
    target = index[-1] if isinstance(index, tuple) and index else index
    if before is None or before.stage != "log-probabilities" or not isinstance(target, Tensor):
        return None
    classes = target.numel() == len(before.prediction) and not target.is_floating_point()
    if not classes:
        return None
    return Draft("errors", before.prediction, target.reshape(-1), F.nll_loss, count=target.numel(), weight=-1.0)


_Step = Callable[[Draft | None, Sequence[Any], Mapping[str, Any], Any], Draft | None]
_STEPS: Mapping[str, _Step] = {
    **dict.fromkeys(("sub", "subtract", "rsub"), _subtracted),
    **dict.fromkeys(("pow", "square"), _squared),
    **dict.fromkeys(("abs", "absolute"), _absolute),
    **dict.fromkeys(("mul", "multiply", "rmul"), _multiplied),
    **dict.fromkeys(("div", "divide", "true_divide", "truediv"), _divided),
    **dict.fromkeys(("neg", "negative"), _negated),
    "mean": _averaged,
    **dict.fromkeys(("sum", "squeeze", "flatten", "reshape", "view"), _summed),
    "log_softmax": _logarithms,
    **dict.fromkeys(("gather", "getitem"), _at_targets),
    **dict.fromkeys(("diagonal", "diag"), _diagonal),
}
"""What each operation makes of its first operand, by its name without underscores around it."""
_BETWEEN_ELEMENTS = frozenset({"sub", "subtract", "rsub", "mul", "multiply", "rmul", "div", "truediv", "add", "radd"})
