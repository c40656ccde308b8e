"""Random numbers of the recorder's own, so that those of the training stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def own_generator(device: torch.device) -> torch.Generator:
    """A generator whose numbers are the same in every run."""
    return torch.Generator(device).manual_seed(0)


def random_signs(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """1 and -1 with equal chance, in a shape, and in the precision and place of a tensor."""
    bits = torch.randint(0, 2, tuple(shape), generator=generator, device=like.device, dtype=like.dtype)
    return bits.mul_(2).sub_(1)
