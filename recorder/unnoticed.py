"""Differentiating the user's graph once more, with no trace left in the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def unnoticed(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Buffers and random numbers are afterwards what they were.

    Activation checkpointing runs layers again when they are differentiated: batch norms would count that batch twice.
    """
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers() if not buffer.is_inference()]
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        for buffer, before in buffers:
            buffer.data.copy_(before)  # through `.data`: autograd, which may hold the buffer, need not know
