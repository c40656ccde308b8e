"""Projections g_i.d of individual gradients on a direction, without the individual gradients.

For a module with output gradient delta_i, sample i adds <delta_i, J d> with J the Jacobian of the module's output in
its parameters. A module that is linear in its parameters gives J d by its own forward operation with d in their place;
any other module by a Jacobian-vector product of that module alone. Tied weights and repeated calls add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .capture import Call
from .directional import Direction, directional_derivative, in_precision


def _linear(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.linear(x, _weight(module, d), d.get("bias"))


def _convolution(module: Any, d: Direction, x: Tensor) -> Tensor:
    convolved: Tensor = module._conv_forward(x, _weight(module, d), d.get("bias"))
    return convolved


def _embedding(module: Any, d: Direction, x: Tensor) -> Tensor:
    rows = F.embedding(x, _weight(module, d))
    return rows if module.padding_idx is None else rows * (x != module.padding_idx).unsqueeze(-1)


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
    nn.LayerNorm.forward: _layer_norm,
    nn.RMSNorm.forward: _rms_norm,
    nn.GroupNorm.forward: _group_norm,
    nn.modules.batchnorm._BatchNorm.forward: _batch_norm,
}
"""Forward operation with a direction in place of the parameters, for modules that are linear in them."""


def is_linear(module: nn.Module, names: tuple[str, ...]) -> bool:
    """Whether the module is linear in these parameters and projected by its own forward operation."""
    direct = module._parameters.keys() >= set(names)
    return direct and type(module).forward in LINEAR and not hasattr(module, "parametrizations")


def project(call: Call, parameters: Direction, direction: Direction, samples: int, kept: int) -> Tensor:
    """<delta_i, J d> for each of the first `kept` of the call's samples, (kept,).

    `parameters`: their values when the module was called. Raises ValueError where an output cannot be split into
    samples or an input was changed in place meanwhile, RuntimeError where the module has no forward-mode derivative.
    """
    if not call.intact:
        raise ValueError("its input was changed in place")
    dimension = call.sample_dimension(samples)
    if dimension is None:
        raise ValueError(f"its input or its output of shape {call.shape} does not run over {samples} samples")
    positions = tuple(call.gradients)
    if is_linear(call.module, tuple(direction)):
        tangents: tuple[Tensor, ...] = (_by_forward_operation(call, direction),)
    else:
        tangents = directional_derivative(call, parameters, direction, positions)
    pairs = zip(tangents, positions, strict=True)
    return torch.stack([_per_sample(t, call.gradients[i], dimension, kept) for t, i in pairs]).sum(0)


def _by_forward_operation(call: Call, direction: Direction) -> Tensor:
    some = next(iter(direction.values()))
    x = call.args[0] if call.args else call.kwargs["input"]
    with torch.no_grad(), torch.autocast(some.device.type, enabled=False):
        return LINEAR[type(call.module).forward](call.module, direction, in_precision(some.dtype, x))


def _per_sample(tangent: Tensor, gradient: Tensor, dimension: int, kept: int) -> Tensor:
    """Inner product of the two for each sample that the gradient was kept of, (kept,)."""
    tangent = tangent.narrow(dimension, 0, gradient.shape[dimension])
    product = tangent * gradient.to(tangent.dtype)
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
