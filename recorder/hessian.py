"""Products of the loss's Hessian with vectors, on the graph of the pass that is about to be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from .graph import differentiable_once

Product = Callable[[Tensor], Tensor]
"""A symmetric matrix as its product with a vector (entries,); the product is the caller's to change."""


class Hessian:
    """The Hessian in some parameters, all flattened into one vector. The graph stays, for the user's backward pass.

    Raises RuntimeError where an operation of the loss cannot be differentiated twice.
    """

    def __init__(self, loss: Tensor, parameters: Sequence[Tensor]) -> None:
        if name := differentiable_once(loss):
            raise RuntimeError(f"{name} is marked as differentiable once")
        self._parameters = list(parameters)
        self.sizes = [p.numel() for p in self._parameters]
        gradients = torch.autograd.grad(
            loss, self._parameters, create_graph=True, allow_unused=True, materialize_grads=True
        )
        self._gradient = torch.cat([g.flatten() for g in gradients])

    def __matmul__(self, vector: Tensor) -> Tensor:
        if not self._gradient.requires_grad:  # a loss that is linear in all parameters
            return torch.zeros_like(vector)
        products = torch.autograd.grad(
            self._gradient, self._parameters, vector, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return torch.cat([p.flatten() for p in products]).detach()


def block_traces(product: Product, sizes: Sequence[int], signs: Iterable[Tensor]) -> Tensor:
    """Hutchinson's estimate of the traces of the diagonal blocks of these sizes, (blocks,): mean of v.Hv over vectors.

    `signs`: vectors of random signs (entries,); what couples the blocks has mean zero. Hutchinson 1990.
    """
    found = [torch.stack([part.sum() for part in product(v).mul_(v).split(list(sizes))]) for v in signs]
    return torch.stack(found).mean(0)


def largest_eigenvalue(product: Product, start: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Largest algebraic eigenvalue by Lanczos with full reorthogonalisation: (value, eigenvector, residual).

    The residual ||Hv - value v|| bounds the distance to the nearest eigenvalue. Golub & Van Loan, section 10.1.
    """
    steps = min(steps, len(start))
    basis = start.new_empty(steps, len(start))  # in one piece: a list to be stacked would be held twice
    torch.div(start, start.norm().clamp(min=torch.finfo(start.dtype).tiny), out=basis[0])
    diagonal: list[Tensor] = []
    off: list[Tensor] = []
    for i in range(steps):
        known = basis[: i + 1]
        image = product(known[-1])
        diagonal.append(torch.dot(known[-1], image))
        for _ in range(2):  # twice is enough
            image = image.addmv_(known.T, known @ image, alpha=-1)
        off.append(image.norm())
        if i + 1 < steps:
            torch.div(image, off[-1].clamp(min=torch.finfo(start.dtype).tiny), out=basis[i + 1])
    small = _tridiagonal(diagonal, off[:-1])
    value, weights = _top(small)
    return value, basis.T @ weights.to(start.dtype), off[-1].double() * weights[-1].abs()


def _tridiagonal(diagonal: list[Tensor], off: list[Tensor]) -> Tensor:
    main = torch.diag(torch.stack(diagonal).double())
    if not off:
        return main
    beside = torch.stack(off).double()
    return main + torch.diag(beside, 1) + torch.diag(beside, -1)


def _top(matrix: Tensor, squarings: int = 40) -> tuple[Tensor, Tensor]:
    """Largest eigenvalue of a small symmetric matrix and its eigenvector, without waiting for the device.

    Shifted to be positive and squared again and again, the matrix becomes the projection on that eigenvector.
    """
    shift = 1.01 * matrix.abs().sum(1).max() + 1e-100
    power = matrix + shift * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    for _ in range(squarings):
        power = power / power.norm()
        power = power @ power
    column = power.index_select(1, power.diagonal().argmax().reshape(1)).flatten()
    vector = column / column.norm()
    return vector @ matrix @ vector, vector
