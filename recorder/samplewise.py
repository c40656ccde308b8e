"""What each sample adds to the gradient of a unit's parameters: its *part*. Those of a batch sum to the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .call import Call
from .directional import transposed_derivative
from .passes import Pass
from .plan import Unit
from .precision import in_precision
from .projection import check, is_plain, sample_dimension_of
from .twins import by_twin, has_rule

Parts = dict[str, Tensor]
"""Parts by the module's own parameter name, each (samples, *shape of the parameter)."""

ELEMENTS = 1 << 20
"""Numbers that one chunk of parts may have."""
ON_DEVICE = 128
"""Times as many on an accelerator, where it is the operations that cost."""
REPLAYED = 16
"""Samples of which parts are made where a module has to be differentiated once for each."""


def in_chunks(
    units: Sequence[Unit], one: Pass, before: list[Tensor], most: int | None = None
) -> Iterator[dict[int, Tensor]]:
    """Parts of the samples of a pass by tensor position, a chunk of samples at a time: (chunk, *shape of the tensor).

    Of the first `most` samples, if given; otherwise of all, or of the first REPLAYED where a module has to be
    differentiated once for each. `units` are all that share these tensors; their parts are added up, as are the calls
    of a module. Raises ValueError or RuntimeError where the parts of a unit cannot be had.
    """
    at_once = samples_used(units, one)
    samples = at_once if most is None else min(one.kept, most)
    largest = max(before[i].numel() for unit in units for i in unit.parameters.values())
    most_numbers = ELEMENTS * (1 if before[0].device.type == "cpu" else ON_DEVICE)
    size = max(1, min(at_once, most_numbers // max(largest, 1)))
    calls = [(unit, call) for unit in units for call in one.calls.get(unit.module, ())]
    for first in range(0, samples if calls else 0, size):
        found: dict[int, Tensor] = {}
        for unit, call in calls:
            parts = of_call(unit, one, call, before, first, min(first + size, samples))
            accumulate(found, {unit.parameters[name]: part for name, part in parts.items()})
            del parts
        yield found
        found.clear()  # before the next chunk is made


def accumulate(sums: dict[int, Tensor], more: Mapping[int, Tensor]) -> None:
    """Add tensors to the sums at the same positions."""
    for i, value in more.items():
        sums[i] = sums[i] + value if i in sums else value


def samples_used(units: Sequence[Unit], one: Pass) -> int:
    """How many samples of a pass `in_chunks` makes the parts of."""
    return one.kept if all(unit.own and cheap(unit.module) for unit in units) else min(one.kept, REPLAYED)


def of_call(unit: Unit, one: Pass, call: Call, before: list[Tensor], first: int, last: int) -> Parts:
    """Parts of the samples from `first` to before `last` in one call."""
    check(call)
    if not (unit.own and cheap(unit.module)):
        return _by_replay(unit, one, call, before, first, last)
    x, gradient = layer_input(call, one, before[next(iter(unit.parameters.values()))].dtype)
    each = len(gradient) // one.kept
    found = _of_rows(unit, x, gradient, slice(first * each, last * each))
    if each == 1:
        return found
    return {name: part.reshape(last - first, each, *part.shape[1:]).sum(1) for name, part in found.items()}


def cheap(module: nn.Module) -> bool:
    """Whether the parts come from the input and the output gradient alone."""
    return is_plain(module) and (type(module).forward in _FORMULAS or has_rule(module))


def layer_input(call: Call, one: Pass, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Input and output gradient of a layer's call, samples first, in the precision of the parameters."""
    dimension = sample_dimension_of(call, 0, one.samples)
    gradient = in_precision(dtype, call.gradients[0])
    return in_precision(dtype, call.input).movedim(dimension, 0), gradient.movedim(dimension, 0)


def _of_rows(unit: Unit, x: Tensor, gradient: Tensor, rows: slice) -> Parts:
    formula = _FORMULAS.get(type(unit.module).forward)
    if formula is not None:
        found = formula(unit.module, x, gradient, rows)
        return {name: found[name] for name in unit.parameters}
    return {name: _weight_or_bias(unit.module, name, x[rows], gradient[rows]) for name in unit.parameters}


def _weight_or_bias(module: Any, name: str, x: Tensor, gradient: Tensor) -> Tensor:
    """Of a convolution: an ordinary one of two dimensions by a product of matrices, quicker than BackPACK's rule."""
    if name == "bias":
        return gradient.flatten(2).sum(2)
    ordinary = isinstance(module, nn.Conv2d) and module.groups == 1
    if ordinary and isinstance(module.padding, tuple) and module.padding_mode == "zeros":
        columns = _columns(module, x)
        return torch.bmm(gradient.flatten(2), columns.transpose(1, 2)).reshape(len(x), *module.weight.shape)
    return by_twin(module, x, gradient)


def _columns(module: nn.Conv2d, x: Tensor) -> Tensor:
    """What each output pixel of a convolution sees, (samples, entries of a kernel, pixels).

    As `F.unfold`, whose loop takes up to seven times as long as this copy of a view.
    """
    assert isinstance(module.padding, tuple)
    down, across = module.padding
    view = F.pad(x, (across, across, down, down)) if down or across else x
    for dim in (2, 3):
        size, apart, stride = module.kernel_size[dim - 2], module.dilation[dim - 2], module.stride[dim - 2]
        view = view.unfold(dim, apart * (size - 1) + 1, stride)[..., ::apart]
    return view.permute(0, 1, 4, 5, 2, 3).flatten(4).flatten(1, 3)


def _linear(_module: Any, x: Tensor, gradient: Tensor, rows: slice) -> Parts:
    """Outer products of output gradient and input, summed over the dimensions between the first and the last."""
    x, gradient = x[rows], gradient[rows]
    if gradient.dim() == 2:
        return {"weight": gradient.unsqueeze(2) * x.unsqueeze(1), "bias": gradient}
    x, gradient = x.flatten(1, -2), gradient.flatten(1, -2)
    return {"weight": gradient.transpose(1, 2) @ x, "bias": gradient.sum(1)}


def _norm_parts(normalized: Tensor, gradient: Tensor, kept: tuple[int, ...]) -> Parts:
    """Parts of an affine map of normalised values: sums over all dimensions but the samples' and `kept`."""
    summed = tuple(d for d in range(1, gradient.dim()) if d not in kept)
    weight = gradient * normalized
    return {
        "weight": weight.sum(summed) if summed else weight,
        "bias": gradient.sum(summed) if summed else gradient,
    }


def _over_last(normalize: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor, Tensor, slice], Parts]:
    """For norms whose parameters run over the last dimensions."""

    def parts(module: Any, x: Tensor, gradient: Tensor, rows: slice) -> Parts:
        count = len(module.normalized_shape)
        kept = tuple(range(gradient.dim() - count, gradient.dim()))
        return _norm_parts(normalize(module, x[rows]), gradient[rows], kept)

    return parts


def _group_norm(module: Any, x: Tensor, gradient: Tensor, rows: slice) -> Parts:
    return _norm_parts(F.group_norm(x[rows], module.num_groups, eps=module.eps), gradient[rows], (1,))


def _batch_norm(module: Any, x: Tensor, gradient: Tensor, rows: slice) -> Parts:
    """Normalised over the whole batch in training mode: a sample's part of the batch gradient."""
    by_batch = module.training or module.running_mean is None
    mean, var = (None, None) if by_batch else (module.running_mean, module.running_var)
    return _norm_parts(F.batch_norm(x, mean, var, training=by_batch, eps=module.eps)[rows], gradient[rows], (1,))


def _embedding(module: Any, x: Tensor, gradient: Tensor, rows: slice) -> Parts:
    tokens = x[rows].flatten(1) if x.dim() > 1 else x[rows].unsqueeze(1)
    gradient = gradient[rows].reshape(*tokens.shape, -1)
    if module.padding_idx is not None:
        gradient = gradient * (tokens != module.padding_idx).unsqueeze(-1)
    return _table(module, tokens, gradient)


def _embedding_bag(module: Any, x: Tensor, gradient: Tensor, rows: slice) -> Parts:
    """Of bags of tokens (n, tokens): every token of a bag has the bag's gradient, or an equal share of it."""
    tokens = x[rows]
    counted = torch.ones_like(tokens) if module.padding_idx is None else tokens != module.padding_idx
    counts = counted.to(gradient.dtype)
    shares = counts if module.mode == "sum" else counts / counts.sum(1, keepdim=True).clamp(min=1)
    return _table(module, tokens, gradient[rows].unsqueeze(1) * shares.unsqueeze(-1))


def _table(module: Any, tokens: Tensor, gradient: Tensor) -> Parts:
    """A table of its own for each sample, into which the gradients of its tokens (n, tokens, entries) are added."""
    count, entries = len(tokens), module.num_embeddings
    table = torch.zeros(count * entries, gradient.shape[-1], dtype=gradient.dtype, device=gradient.device)
    places = tokens + entries * torch.arange(count, device=tokens.device).unsqueeze(1)
    return {"weight": table.index_add_(0, places.flatten(), gradient.flatten(0, 1)).reshape(count, entries, -1)}


_FORMULAS: Mapping[Callable[..., Any], Callable[[Any, Tensor, Tensor, slice], Parts]] = {
    nn.Linear.forward: _linear,
    nn.LayerNorm.forward: _over_last(lambda m, x: F.layer_norm(x, m.normalized_shape, eps=m.eps)),
    nn.RMSNorm.forward: _over_last(lambda m, x: F.rms_norm(x, m.normalized_shape, eps=m.eps)),
    nn.GroupNorm.forward: _group_norm,
    nn.modules.batchnorm._BatchNorm.forward: _batch_norm,
    nn.Embedding.forward: _embedding,
    nn.EmbeddingBag.forward: _embedding_bag,
}
"""Parts of some samples by formula; `x` and the gradient are those of all samples."""


def _by_replay(unit: Unit, one: Pass, call: Call, before: list[Tensor], first: int, last: int) -> Parts:
    """The module runs again, and is differentiated for each sample with the output gradient of that sample alone."""
    dimensions = {i: sample_dimension_of(call, i, one.samples) for i in call.gradients}
    alone = {i: _each_alone(g, dimensions[i], one, first, last) for i, g in call.gradients.items()}
    values = {name: before[i] for name, i in unit.within.items()}
    return transposed_derivative(call, values, tuple(unit.parameters), alone)


def _each_alone(gradient: Tensor, dimension: int, one: Pass, first: int, last: int) -> Tensor:
    """Copies of an output gradient, (samples, *shape), each with all but one sample set to zero."""
    each = gradient.shape[dimension] // one.kept
    owner = torch.arange(gradient.shape[dimension], device=gradient.device) // each
    shape = [-1 if d == dimension else 1 for d in range(gradient.dim())]
    chosen = torch.arange(first, last, device=gradient.device)
    return torch.stack([gradient * (owner == i).reshape(shape) for i in chosen])
