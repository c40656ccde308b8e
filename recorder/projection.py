"""Projections g_i.d of individual gradients on a direction, without the individual gradients.

For a module with output gradient delta_i, sample i adds <delta_i, J d> with J the Jacobian of the module's output in
its parameters. A module that is linear in its parameters gives J d by its own forward operation with d in their place;
any other module by a Jacobian-vector product of that module alone. Tied weights and repeated calls add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .call import Call
from .directional import Direction, directional_derivative
from .precision import in_precision


def _linear(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.linear(x, _weight(module, d), d.get("bias"))


def _convolution(module: Any, d: Direction, x: Tensor) -> Tensor:
    convolved: Tensor = module._conv_forward(x, _weight(module, d), d.get("bias"))
    return convolved


def _embedding(module: Any, d: Direction, x: Tensor) -> Tensor:
    rows = F.embedding(x, _weight(module, d))
    return rows if module.padding_idx is None else rows * (x != module.padding_idx).unsqueeze(-1)


def _embedding_bag(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.embedding_bag(x, d["weight"], mode=module.mode, padding_idx=module.padding_idx)


def _layer_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.layer_norm(x, module.normalized_shape, _entry(module, d, "weight"), _entry(module, d, "bias"), module.eps)


def _rms_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.rms_norm(x, module.normalized_shape, _entry(module, d, "weight"), module.eps)


def _group_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.group_norm(x, module.num_groups, _entry(module, d, "weight"), _entry(module, d, "bias"), module.eps)


def _batch_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    """In training mode this is what a sample adds to the gradient of the batch.

    Statistics are shared by its samples.
    """
    by_batch = module.training or module.running_mean is None
    mean, var = (None, None) if by_batch else (module.running_mean, module.running_var)
    return F.batch_norm(x, mean, var, _entry(module, d, "weight"), _entry(module, d, "bias"), by_batch, 0.0, module.eps)


LINEAR: Mapping[Callable[..., Any], Callable[[Any, Direction, Tensor], Tensor]] = {
    nn.Linear.forward: _linear,
    nn.Conv1d.forward: _convolution,
    nn.Conv2d.forward: _convolution,
    nn.Conv3d.forward: _convolution,
    nn.Embedding.forward: _embedding,
    nn.EmbeddingBag.forward: _embedding_bag,
    nn.LayerNorm.forward: _layer_norm,
    nn.RMSNorm.forward: _rms_norm,
    nn.GroupNorm.forward: _group_norm,
    nn.modules.batchnorm._BatchNorm.forward: _batch_norm,
}
"""Forward operation with a direction in place of the parameters, for modules that are linear in them."""


def is_linear(module: nn.Module, names: tuple[str, ...]) -> bool:
    """Whether the module is linear in these parameters and projected by its own forward operation."""
    return type(module).forward in LINEAR and is_plain(module) and module._parameters.keys() >= set(names)


def is_plain(module: nn.Module) -> bool:
    """Whether the module does what its class's `forward` does to a weight and a bias of its own, and nothing else.

    Not so where a weight is made of other parameters (weight norm, pruning) or `forward` was replaced on the object.
    """
    names = module._parameters.keys() <= {"weight", "bias"}
    return names and "forward" not in vars(module) and not hasattr(module, "parametrizations")


def check(call: Call) -> None:
    """Raise ValueError where input and output gradient of a call do not tell what its samples add to the gradient."""
    if not call.intact:
        raise ValueError("its input was changed in place")
    for module in call.module.modules():
        if getattr(module, "scale_grad_by_freq", False):
            raise ValueError("its gradient is scaled by the frequency of what is looked up")
        if isinstance(module, nn.EmbeddingBag) and module.mode == "max":
            raise ValueError("the largest entries of bags have no second derivative")
    if isinstance(call.module, nn.EmbeddingBag) and len(call.args) + len(call.kwargs) > 1:
        raise ValueError("it was given more than bags of equal size: offsets, or weights")


def sample_dimension_of(call: Call, position: int, samples: int) -> int:
    """The dimension of an output, by its position, that runs over samples. Raises ValueError if none does."""
    found = call.dimension_of(position, samples)
    if found is None:
        shape = call.shapes[position]
        raise ValueError(f"its input or its output of shape {shape} does not run over {samples} samples")
    return found


def project(
    call: Call, parameters: Direction, directions: Sequence[Direction], samples: int, kept: int
) -> list[Tensor]:
    """<delta_i, J d> of each of the first `kept` of the call's samples, (kept,) for each direction d.

    `parameters`: their values when the module was called. Raises ValueError where an output cannot be split into
    samples or an input was changed in place meanwhile, RuntimeError where the module has no derivative.
    """
    check(call)
    if is_linear(call.module, tuple(directions[0])):
        ((position, gradient),) = call.gradients.items()
        dimension = sample_dimension_of(call, position, samples)
        # One direction after the other: outputs are the largest tensors there are.
        each = partial(_per_sample, gradient=gradient, dimension=dimension, kept=kept, fresh=True)
        return list(map(each, _by_forward_operation(call, directions)))
    positions = tuple(call.gradients)
    dimensions = [sample_dimension_of(call, position, samples) for position in positions]

    def summed(direction: Direction) -> Tensor:
        tangents = directional_derivative(call, parameters, direction, positions)
        each = zip(tangents, positions, dimensions, strict=True)
        return torch.stack([_per_sample(t, call.gradients[i], d, kept) for t, i, d in each]).sum(0)

    return [summed(direction) for direction in directions]


def _by_forward_operation(call: Call, directions: Sequence[Direction]) -> Iterable[Tensor]:
    """J d of a linear module, for all directions in one pass where its outputs can stand side by side."""
    module, forward = call.module, type(call.module).forward
    x = in_precision(next(iter(directions[0].values())).dtype, call.input)
    side = _SIDE_BY_SIDE.get(forward)
    large = next(iter(call.gradients.values())).numel() > LARGE
    if len(directions) == 1 or side is None or large or getattr(module, "groups", 1) > 1:
        return (LINEAR[forward](module, d, x) for d in directions)
    stacked = {name: torch.cat([d[name] for d in directions]) for name in directions[0]}
    if "weight" not in stacked:
        stacked["weight"] = torch.cat([_weight(module, d) for d in directions])
    return LINEAR[forward](module, stacked, x).chunk(len(directions), side)


LARGE = 1 << 18
"""Numbers in an output beyond which one pass for several directions costs more, in memory traffic, than it saves."""
_SIDE_BY_SIDE: Mapping[Callable[..., Any], int] = {
    nn.Linear.forward: -1,
    nn.Conv1d.forward: 1,
    nn.Conv2d.forward: 1,
    nn.Conv3d.forward: 1,
}
"""Dimension in which outputs for several directions stand side by side: stacked weights, one pass over the input."""


def _per_sample(tangent: Tensor, gradient: Tensor, dimension: int, kept: int, fresh: bool = False) -> Tensor:
    """Inner product of the two for each sample that the gradient was kept of, (kept,); a `fresh` tangent is used up."""
    tangent = tangent.narrow(dimension, 0, gradient.shape[dimension])
    gradient = gradient.to(tangent.dtype)
    product = tangent.mul_(gradient) if fresh else tangent * gradient
    return product.movedim(dimension, 0).reshape(kept, -1).sum(1)


def _weight(module: Any, direction: Direction) -> Tensor:
    """The direction's entry for the weight, zeros if the weight does not move."""
    if "weight" in direction:
        return direction["weight"]
    weight: Tensor = module.weight
    return torch.zeros_like(weight)


def _entry(module: nn.Module, direction: Direction, name: str) -> Tensor | None:
    """The direction's entry for a parameter: zeros for one that does not move, None for one that the module lacks."""
    if name in direction:
        return direction[name]
    own = module._parameters.get(name)
    return None if own is None else torch.zeros_like(own)
