"""Differentiating the user's graph once more, with no trace left in the training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .fragility import listening

if TYPE_CHECKING:
    from .context import Context


@contextmanager
def unnoticed(
    context: Context, start: Tensor, parameters: Sequence[Tensor] = (), *, recompute: bool = True
) -> Iterator[None]:
    """Buffers and random numbers are afterwards what they were. `start`: what is differentiated.

    Raises RuntimeError where the graph must not be differentiated once more, or where hooks of the user's would be
    called, those of the `parameters` that are differentiated in among them: they may count, or change a gradient.

    Activation checkpointing runs layers again when they are differentiated: batch norms would count that batch twice,
    and a counter of the user's does. Without `recompute` such graphs are refused too.
    """
    reason = context.fragility.reason or listening(context.model, start)
    if not reason and context.fragility.recomputes and not recompute:
        reason = "activation checkpoints would run their layers once more"
    if not reason and any(p._backward_hooks for p in parameters):
        reason = "a parameter has hooks on its gradient, which would be called"
    if reason:
        raise RuntimeError(reason)
    buffers = [(buffer, buffer.detach().clone()) for buffer in context.model.buffers() if not buffer.is_inference()]
    try:
        with torch.random.fork_rng(devices=[start.device] if start.device.type == "cuda" else []):
            yield
    finally:
        for buffer, before in buffers:
            with suppress(RuntimeError):  # an expanded buffer cannot be written, by nobody
                buffer.data.copy_(before)  # through `.data`: autograd, which may hold the buffer, need not know
