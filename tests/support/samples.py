"""Individual gradients the slow and obvious way."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


def individual_gradients(model: nn.Module, parameters: list[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
    """(samples, *shape) for each parameter tensor, one backward pass a sample."""
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(value)
    rows = []
    for i in range(len(x)):
        loss = F.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
        moving = [p for p in model.parameters() if p.requires_grad]
        found = iter(torch.autograd.grad(loss, moving, allow_unused=True, materialize_grads=True))
        rows.append([next(found) if p.requires_grad else torch.zeros_like(p) for p in model.parameters()])
    return [torch.stack(column) for column in zip(*rows, strict=True)]
