"""Random gradients of a loss in its prediction whose covariance is the Hessian of the loss there.

Pushed back through a layer they have the generalized Gauss-Newton matrix as their second moments, so that its diagonal
comes from squares of gradients (Schraudolph 2002; Martens & Grosse 2015). Targets drawn from the model's own predictive
distribution give such gradients. Here a square root of the Hessian times random signs does: both have the same
expectation, but a confident model hardly ever draws another class, and single draws are then no estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from .losses import LossCall
from .precision import widened

Signs = Callable[[Tensor], Tensor]
"""Random signs in the shape, precision and place of a tensor."""
Arguments = Mapping[str, Any]


class NoCurvature(ValueError):
    """The curvature of a loss in its prediction cannot be had, with the reason."""


def influences(loss: Tensor, calls: Sequence[LossCall]) -> list[tuple[LossCall, Tensor]]:
    """The calls that the loss is made of, each with the derivative of the loss (0-d, with graph) in what it returned.

    Raises NoCurvature where the loss is anything but a linear combination of them: then they are not all of it.
    """
    reached = _linear_in(loss, {call.result.grad_fn for call in calls})
    made_of = [call for call in calls if call.result.grad_fn in reached]
    weights = torch.autograd.grad(loss, [call.result for call in made_of], retain_graph=True)
    return list(zip(made_of, weights, strict=True))


def random_gradient(call: LossCall, weight: Tensor, signs: Signs) -> Tensor:
    """A gradient of the call's prediction, with mean zero and the loss's Hessian in the prediction as covariance.

    `weight`: the derivative of the loss that is differentiated in what the call returned. Raises NoCurvature for a loss
    without a rule. NaN where the loss curves downwards in its prediction (it was multiplied by a negative number).
    """
    rule = _RULES.get(call.function)
    if rule is None:
        raise NoCurvature(f"no rule tells how {call.name} curves in its prediction")
    arguments, prediction = call.arguments, prediction_of(call)
    if isinstance(target := arguments.get("target"), Tensor) and target.requires_grad:
        raise NoCurvature(f"the target of {call.name} is differentiated too")
    with torch.no_grad(), torch.autocast(prediction.device.type, enabled=False):
        values = {name: widened(v.detach()) if isinstance(v, Tensor) else v for name, v in arguments.items()}
        _check_log_probabilities(call)
        return rule(values, weight, signs).to(prediction.dtype)


def prediction_of(call: LossCall) -> Tensor:
    """What the call was given, with its graph."""
    prediction: Tensor = call.arguments["input"]
    return prediction


def _linear_in(loss: Tensor, results: set[Any]) -> set[Any]:
    """Those of the results (nodes of the graph) that the loss is a linear combination of."""
    waiting, seen = [loss.grad_fn], set[Any]()
    while waiting:
        node: Any = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in results:
            continue
        name = "a leaf" if node is None else node.name()
        following = [n for n, _ in node.next_functions if n is not None] if name in _LINEAR else []
        if not following or (name in _PRODUCTS and len(following) > 1):
            raise NoCurvature(f"the loss is more than a sum of multiples of the losses that were seen ({name})")
        waiting += following
    return seen & results


_PRODUCTS = ("MulBackward0", "DivBackward0")
_LINEAR = frozenset(
    {
        *_PRODUCTS, "AddBackward0", "SubBackward0", "NegBackward0", "MeanBackward0", "MeanBackward1", "SumBackward0",
        "SumBackward1", "ToCopyBackward0", "ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0",
        "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0", "SelectBackward0", "SliceBackward0",
        "IndexBackward0", "MaskedSelectBackward0", "MaskedFillBackward0", "StackBackward0", "CatBackward0",
        "TransposeBackward0", "PermuteBackward0", "ExpandBackward0", "CloneBackward0", "AliasBackward0",
    }
)  # fmt: skip
"""Operations that are linear in what is differentiated, products where only one factor is."""
_SHAPING = ("ViewBackward0", "UnsafeViewBackward0", "TransposeBackward0", "PermuteBackward0", "ToCopyBackward0",
            "SqueezeBackward1", "CloneBackward0", "ReshapeAliasBackward0")  # fmt: skip
"""Operations that may stand between log_softmax and the loss."""


def _cross_entropy(a: Arguments, weight: Tensor, signs: Signs) -> Tensor:
    dimension = 1 if a["input"].dim() > 1 else 0
    probabilities = a["input"].softmax(dimension)
    return _categorical(a, probabilities, dimension, weight, signs)


def _nll(a: Arguments, weight: Tensor, signs: Signs) -> Tensor:
    """In the logits, as of cross entropy: log_softmax passes on just that of a gradient."""
    dimension = 1 if a["input"].dim() > 1 else 0
    return _categorical(a, a["input"].exp(), dimension, weight, signs)


def _categorical(a: Arguments, p: Tensor, dimension: int, weight: Tensor, signs: Signs) -> Tensor:
    """The Hessian of each -log p in the logits is diag(p) - p p^T, whose root is diag(sqrt p) - p sqrt(p)^T."""
    root = p.sqrt()
    drawn = root * signs(root)
    drawn -= p * drawn.sum(dimension, keepdim=True)
    curvature, total = _class_weights(a, p, dimension)
    return drawn * _reduced(a, curvature, weight, total).sqrt().unsqueeze(dimension)


def _class_weights(a: Arguments, p: Tensor, dimension: int) -> tuple[Tensor, Tensor | int]:
    """What multiplies the Hessian of each prediction before the reduction, and what a mean divides by."""
    target, smoothing, classes = a["target"], a.get("label_smoothing", 0.0), p.shape[dimension]
    weight = torch.ones_like(p[:1].flatten()[:1]).expand(classes) if a.get("weight") is None else a["weight"]
    if target.is_floating_point():
        shape = [-1 if d == dimension else 1 for d in range(p.dim())]
        smooth = target * (1 - smoothing) + smoothing / classes
        return (smooth * weight.reshape(shape)).sum(dimension), p.numel() // classes
    kept = target != a.get("ignore_index", -100)
    own = weight[target.masked_fill(~kept, 0).long()] * kept
    return own * (1 - smoothing) + kept * weight.sum() * (smoothing / classes), own.sum()


def _elementwise(
    curvature: Callable[[Arguments], Tensor], by_weight: bool = True
) -> Callable[[Arguments, Tensor, Signs], Tensor]:
    """Of losses of single entries, given the second derivative of each. `by_weight`: weights also divide a mean."""

    def rule(a: Arguments, weight: Tensor, signs: Signs) -> Tensor:
        second, own = curvature(a), a.get("weight")
        total: Tensor | int = second.numel()
        if own is not None:
            second = second * own
            total = own.sum() if by_weight else total
        diagonal = _reduced(a, second, weight, total).sum_to_size(a["input"].shape)
        return diagonal.sqrt() * signs(diagonal)

    return rule


def _logistic(a: Arguments) -> Tensor:
    p: Tensor = a["input"].sigmoid()
    likely = 1.0 if a.get("pos_weight") is None else 1 + (a["pos_weight"] - 1) * a["target"]
    return p * (1 - p) * likely


def _within(a: Arguments, limit: float) -> Tensor:
    difference: Tensor = a["input"] - a["target"]
    return (difference.abs() <= limit).to(difference.dtype)


def _reduced(a: Arguments, values: Tensor, weight: Tensor, total: Tensor | int) -> Tensor:
    """Second derivatives as they enter the loss that is differentiated."""
    if a.get("size_average") is not None or a.get("reduce") is not None:
        raise NoCurvature("it was called with size_average or reduce, which reduction= replaced")
    if a.get("reduction") == "own":
        raise NoCurvature("it is written out, and neither a mean nor a sum")
    return values * weight / total if a.get("reduction", "mean") == "mean" else values * weight


def _check_log_probabilities(call: LossCall) -> None:
    """Raise NoCurvature where the loss needs a log_softmax before it, over the classes, and there is none."""
    if call.function is not F.nll_loss:
        return
    prediction = prediction_of(call)
    node, direct = prediction.grad_fn, True
    while node is not None and node.name() in _SHAPING:
        node, direct = node.next_functions[0][0], False
    if node is None or node.name() != "LogSoftmaxBackward0":
        raise NoCurvature("what nll_loss was given does not come from log_softmax")
    over = node._saved_dim  # type: ignore[attr-defined]
    if direct and (over - (1 << 64) if over >= 1 << 63 else over) % prediction.dim() != min(1, prediction.dim() - 1):
        raise NoCurvature("log_softmax ran over another dimension than the classes")


_RULES: Mapping[Callable[..., Tensor], Callable[[Arguments, Tensor, Signs], Tensor]] = {
    F.cross_entropy: _cross_entropy,
    F.nll_loss: _nll,
    F.binary_cross_entropy_with_logits: _elementwise(_logistic, by_weight=False),
    F.mse_loss: _elementwise(lambda a: 2 * torch.ones_like(a["input"] - a["target"])),
    F.huber_loss: _elementwise(lambda a: _within(a, a.get("delta", 1.0))),
    F.smooth_l1_loss: _elementwise(lambda a: _within(a, a.get("beta", 1.0)) / (a.get("beta", 1.0) or 1.0)),
}
"""The random gradient by loss function."""
