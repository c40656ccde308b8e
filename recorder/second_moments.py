"""Sums over samples of the squared entries of their gradients, a tensor at a time.

Where a layer's rule squares and sums in one product of matrices nothing of size samples x parameters exists; elsewhere
the parts of a chunk of samples do, and are gone before the next. Where they exist, projections on any direction cost
next to nothing and are made as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .passes import Pass, Passes
from .plan import Unit
from .samplewise import accumulate, in_chunks, layer_input, samples_used


@dataclass(frozen=True, slots=True, eq=False)
class SecondMoments:
    """Of one tensor: sums over `count` samples of the squares of their parts, and of the parts themselves.

    `total` is None where all samples were used: it is the gradient then.
    """

    position: int
    square: Tensor
    total: Tensor | None
    count: int


def second_moments(passes: Passes, before: list[Tensor]) -> Iterator[SecondMoments]:
    """The moments of each covered tensor, one at a time. A unit whose parts cannot be had leaves the plan."""
    if passes.moments is None:
        yield from _second_moments(passes, before)
        return
    if not passes.moments:
        passes.moments += _second_moments(passes, before)
    yield from passes.moments


def _second_moments(passes: Passes, before: list[Tensor]) -> Iterator[SecondMoments]:
    for group in passes.groups:
        try:
            with torch.no_grad(), torch.autocast(before[0].device.type, enabled=False):
                found = list(_of_group(group, passes, before))
            yield from found
        except (ValueError, RuntimeError, NotImplementedError) as error:
            passes.give_up(group, error)


def _of_group(group: list[Unit], passes: Passes, before: list[Tensor]) -> Iterator[SecondMoments]:
    positions = sorted({i for unit in group for i in unit.parameters.values()})
    squares: dict[int, Tensor] = {}
    totals: dict[int, Tensor] = {}
    count = 0
    whole = all(samples_used(group, one) == one.samples for one in passes.passes)
    for one in passes.passes:
        products = _by_products(group, one, before) if whole else None
        if products is not None:
            count += one.kept
            accumulate(squares, products)
            continue
        projected = []
        for parts in in_chunks(group, one, before):
            count += len(next(iter(parts.values())))
            projected.append(_projections(parts, passes.asked))
            accumulate(squares, {i: part.square().sum(0) for i, part in parts.items()})
            if not whole:  # else it is the gradient
                accumulate(totals, {i: part.sum(0) for i, part in parts.items()})
        one.supply(group, projected)
    for i in (i for i in positions if i in squares):
        yield SecondMoments(i, squares[i], totals.get(i), count)


def _projections(parts: dict[int, Tensor], directions: Sequence[list[Tensor]]) -> list[Tensor]:
    """Inner products of parts with directions, (samples,) each."""
    if not directions:
        return []
    along = {i: torch.stack([d[i].flatten() for d in directions], 1) for i in parts}
    each = [part.reshape(len(part), -1) @ along[i] for i, part in parts.items()]
    return list(torch.stack(each).sum(0).unbind(1))


def _by_products(group: list[Unit], one: Pass, before: list[Tensor]) -> dict[int, Tensor] | None:
    """Squares of one linear layer, none of whose weights are tied, called once on vectors. None for anything else."""
    module, own = group[0].module, group[0].parameters
    calls = one.calls.get(module, [])
    alone = len(group) == len(calls) == 1
    if not alone or type(module).forward is not nn.Linear.forward or not group[0].linear:
        return None
    x, gradient = layer_input(calls[0], one, before[next(iter(own.values()))].dtype)
    if not calls[0].intact or gradient.dim() != 2 or len(gradient) != one.kept:
        return None
    squared = gradient.square()
    found = {"weight": squared.T @ x.square()} if "weight" in own else {}
    if "bias" in own:
        found["bias"] = squared.sum(0)
    return {own[name]: value for name, value in found.items()}
