"""Projections g_i.d of individual gradients on a direction, without the individual gradients.

For a module with output gradient delta_i, sample i adds <delta_i, J d> with J the Jacobian of the module's output in its
parameters. A module that is linear in its parameters gives J d by its own forward operation with d in their place; any
other module by a Jacobian-vector product of that module alone. Tied weights and repeated calls add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.utils._pytree import tree_flatten, tree_map

from .capture import Call, sample_dimension

Direction = Mapping[str, Tensor]
"""Entries of the direction by the module's own parameter name; a parameter that is not in it does not move."""


def _linear(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.linear(x, _entry(module, d, "weight"), d.get("bias"))


def _convolution(module: Any, d: Direction, x: Tensor) -> Tensor:
    return module._conv_forward(x, _entry(module, d, "weight"), d.get("bias"))


def _embedding(module: Any, d: Direction, x: Tensor) -> Tensor:
    rows = F.embedding(x, _entry(module, d, "weight"))
    return rows if module.padding_idx is None else rows * (x != module.padding_idx).unsqueeze(-1)


def _layer_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.layer_norm(x, module.normalized_shape, _entry(module, d, "weight"), _entry(module, d, "bias"), module.eps)


def _rms_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.rms_norm(x, module.normalized_shape, _entry(module, d, "weight"), module.eps)


def _group_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    return F.group_norm(x, module.num_groups, _entry(module, d, "weight"), _entry(module, d, "bias"), module.eps)


def _batch_norm(module: Any, d: Direction, x: Tensor) -> Tensor:
    """In training mode this is what a sample adds to the gradient of the batch: statistics are shared by its samples."""
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
    dimension = sample_dimension(call.module, call.shape, samples)
    if dimension is None:
        raise ValueError(f"its output of shape {call.shape} does not run over {samples} samples")
    positions = tuple(call.gradients)
    if is_linear(call.module, tuple(direction)):
        tangents: tuple[Tensor, ...] = (_by_forward_operation(call, direction),)
    else:
        tangents = _by_jacobian_vector_product(call, parameters, direction, positions)
    pairs = zip(tangents, positions, strict=True)
    return torch.stack([_per_sample(t, call.gradients[i], dimension, kept) for t, i in pairs]).sum(0)


def _by_forward_operation(call: Call, direction: Direction) -> Tensor:
    some = next(iter(direction.values()))
    x = call.args[0] if call.args else call.kwargs["input"]
    with torch.no_grad(), torch.autocast(some.device.type, enabled=False):
        return LINEAR[type(call.module).forward](call.module, direction, _as(some.dtype, x))


def _by_jacobian_vector_product(
    call: Call, parameters: Direction, direction: Direction, positions: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """The directional derivative of the output tensors at these positions of the flattened output."""
    some = next(iter(direction.values()))
    args, kwargs = (tree_map(lambda item: _as(some.dtype, item), value) for value in (call.args, call.kwargs))
    moved = {name: parameters[name] for name in direction}
    buffers = {name: buffer.clone() for name, buffer in call.module.named_buffers()}

    def outputs(values: dict[str, Tensor]) -> tuple[Tensor, ...]:
        output = tree_flatten(functional_call(call.module, {**parameters, **values, **buffers}, args, kwargs))[0]
        return tuple(output[i] for i in positions)

    with ExitStack() as stack:
        for context in _replaying(some.device):
            stack.enter_context(context)
        if call.random_state is not None:
            _set_random_state(call.random_state, some.device)
        return tuple(jvp(outputs, (moved,), (dict(direction),))[1])


def _replaying(device: torch.device) -> list[AbstractContextManager[Any]]:
    """Contexts in which a module can run again with forward-mode derivatives and without leaving a trace."""
    devices = [device] if device.type == "cuda" else []
    return [
        torch.random.fork_rng(devices=devices),
        torch.autocast(device.type, enabled=False),
        torch.backends.mkldnn.flags(enabled=False),  # the fused recurrent layers have no forward-mode derivative
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),  # nor has fused attention
        torch.no_grad(),
    ]


def _set_random_state(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


def _per_sample(tangent: Tensor, gradient: Tensor, dimension: int, kept: int) -> Tensor:
    """Inner product of the two for each sample that the gradient was kept of, (kept,)."""
    tangent = tangent.narrow(dimension, 0, gradient.shape[dimension])
    product = tangent * gradient.to(tangent.dtype)
    return product.movedim(dimension, 0).reshape(kept, -1).sum(1)


def _entry(module: nn.Module, direction: Direction, name: str) -> Tensor | None:
    """The direction's entry for a parameter: zeros for one that does not move, None for one that the module lacks."""
    if name in direction:
        return direction[name]
    own = module._parameters.get(name)
    return None if own is None else torch.zeros_like(own)


def _as(dtype: torch.dtype, value: Any) -> Any:
    """A floating tensor in the precision of the parameters (autocast may have lowered it)."""
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
