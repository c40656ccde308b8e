"""Differentiating the user's graph once more, with no trace left in the training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def unnoticed(model: nn.Module, device: torch.device, parameters: Sequence[Tensor] = ()) -> Iterator[None]:
    """Buffers and random numbers are afterwards what they were.

    Raises RuntimeError where hooks of the user's on backward passes, of modules or of the `parameters` that are
    differentiated in, would be called once more: they may count, or change a gradient.

    Activation checkpointing runs layers again when they are differentiated: batch norms would count that batch twice.
    """
    if any(m._backward_hooks or m._backward_pre_hooks for m in model.modules()):
        raise RuntimeError("a module has hooks on its backward pass, which would be called")
    if any(p._backward_hooks for p in parameters):
        raise RuntimeError("a parameter has hooks on its gradient, which would be called")
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers() if not buffer.is_inference()]
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        for buffer, before in buffers:
            buffer.data.copy_(before)  # through `.data`: autograd, which may hold the buffer, need not know
