"""How the output of one call of a module changes when its parameters move: the module runs again, leaving no trace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from .call import Call
from .hooks import Hook
from .nested import leaves, mapped
from .precision import in_precision

Direction = Mapping[str, Tensor]
"""Entries of the direction by the module's own parameter name; a parameter that is not in it does not move."""


def directional_derivative(
    call: Call, parameters: Direction, direction: Direction, positions: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """The derivative, along the direction, of the output tensors at some positions of the flattened output.

    In forward mode where every operation has it, else by differentiating backwards twice. `parameters`: their values at
    the call. Raises RuntimeError where neither works.
    """
    moved = {name: parameters[name].detach() for name in direction}
    outputs = _rerun(call, parameters, next(iter(moved.values())), positions)
    with _replaying(next(iter(moved.values())).device):
        try:
            with torch.no_grad():
                return tuple(jvp(outputs, (moved,), (dict(direction),))[1])
        except (RuntimeError, NotImplementedError):
            return _backwards_twice(outputs, moved, direction)


def transposed_derivative(
    call: Call, parameters: Direction, names: tuple[str, ...], gradients: Mapping[int, Tensor]
) -> dict[str, Tensor]:
    """Gradients of some parameters for several output gradients at once, (count, *shape of the parameter) by name.

    `gradients`: by position in the flattened output, (count, *shape of that output). Raises RuntimeError where the
    backward pass of the module cannot be batched.
    """
    moved = {name: parameters[name].detach() for name in names}
    some = next(iter(moved.values()))
    outputs = _rerun(call, parameters, some, tuple(gradients))
    with _replaying(some.device), torch.enable_grad():
        variables = {name: value.requires_grad_() for name, value in moved.items()}
        given = [in_precision(some.dtype, gradient) for gradient in gradients.values()]
        pairs = [(r, w) for r, w in zip(outputs(variables), given, strict=True) if r.requires_grad]
        if not pairs:  # the parameters are used elsewhere, such as in the loss
            count = len(next(iter(gradients.values())))
            return {name: value.detach().new_zeros(count, *value.shape) for name, value in variables.items()}
        results, weights = zip(*pairs, strict=True)  # others are made without these parameters
        found = torch.autograd.grad(
            results, list(variables.values()), weights, is_grads_batched=True, allow_unused=True, materialize_grads=True
        )
    return dict(zip(variables, found, strict=True))


def _rerun(
    call: Call, parameters: Direction, some: Tensor, positions: tuple[int, ...]
) -> Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]]:
    """The module as a function of the parameters that move, with the inputs and random numbers of its call."""
    if any(not isinstance(h, Hook) for m in call.module.modules() for h in m._forward_pre_hooks.values()):
        raise ValueError("a hook runs before it (weight norm, pruning), so that running it again would leave a trace")
    args, kwargs = (mapped(partial(in_precision, some.dtype), value) for value in (call.args, call.kwargs))

    def outputs(values: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        if call.random_state is not None:
            _set_random_state(call.random_state, some.device)
        kept = dict(call.module.named_buffers()) if call.buffers is None else call.buffers
        buffers = {name: buffer.clone() for name, buffer in kept.items()}
        with _without_hooks(call.module):
            output = functional_call(call.module, {**parameters, **values, **buffers}, args, kwargs)
        flat = leaves(output)
        return tuple(flat[i] for i in positions)

    return outputs


def _backwards_twice(
    outputs: Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]], moved: Direction, direction: Direction
) -> tuple[Tensor, ...]:
    """J d as the derivative of (J^T u).d in u, which is linear in u."""
    with torch.enable_grad():
        variables = {name: value.requires_grad_() for name, value in moved.items()}
        results = outputs(variables)
        weights = [torch.zeros_like(result, requires_grad=True) for result in results]
        gradients = torch.autograd.grad(
            results, list(variables.values()), weights, create_graph=True, allow_unused=True, materialize_grads=True
        )
        along = [(g * direction[name]).sum() for name, g in zip(variables, gradients, strict=True)]
        return torch.autograd.grad(torch.stack(along).sum(), weights)


@contextmanager
def _replaying(device: torch.device) -> Iterator[None]:
    """Surroundings in which a module can run again with derivatives, and without moving the random numbers."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[device] if device.type == "cuda" else []))
        stack.enter_context(torch.autocast(device.type, enabled=False))
        stack.enter_context(_without_mkldnn())  # its recurrent layers have no forward-mode derivative,
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # nor has fused attention
        yield


@contextmanager
def _without_hooks(module: nn.Module) -> Iterator[None]:
    """Hooks of the user's must not see that the module runs again."""
    kept = [(m, m._forward_hooks, m._forward_pre_hooks) for m in module.modules()]
    for each, *_ in kept:
        each._forward_hooks, each._forward_pre_hooks = OrderedDict(), OrderedDict()
    try:
        yield
    finally:
        for each, after, before in kept:
            each._forward_hooks, each._forward_pre_hooks = after, before


@contextmanager
def _without_mkldnn() -> Iterator[None]:
    before = torch.backends.mkldnn.set_flags(False)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before[0])


def _set_random_state(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
