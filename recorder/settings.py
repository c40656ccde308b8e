"""Settings of a recorder: what may be asked for, and defaults that depend on the machine."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Literal, SupportsIndex

import torch
from torch import nn
from torch.optim import Optimizer

from .instruments import PRESETS

MODES = ("train", "overfit-batch")
"""What a run is for; each is judged by rules of its own."""


def check(
    model: nn.Module, optimizers: tuple[Optimizer, ...], preset: str, every: int, dense_steps: int, mode: str
) -> None:
    """Raise TypeError or ValueError, with what would be right, for a setting that cannot be."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if not optimizers:
        raise ValueError("optimizer must be a torch.optim.Optimizer or several, not none")
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer or several, not {type(optimizer).__name__}")
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {preset!r}")
    if every < 1 or dense_steps < 0:
        raise ValueError(f"every must be at least 1 and dense_steps at least 0, not {every!r} and {dense_steps!r}")
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")


def checked_intervals(preset: str, intervals: Mapping[str, int | None]) -> dict[str, int | None]:
    """Steps between probes by instrument, None for one left out. Raises ValueError for one the preset has not."""
    names = [kind.name for kind in PRESETS[preset]]
    for name, every in intervals.items():
        if name not in names:
            raise ValueError(f"preset {preset!r} has no instrument {name!r}; it has {', '.join(names)}")
        if every is not None and every < 1:
            raise ValueError(
                f"steps between probes of {name!r} must be at least 1, or None to leave it out, not {every}"
            )
    return dict(intervals)


def checked_samples(samples: object) -> int | Literal["all"] | None:
    """Samples whose gradients histograms count. Raises ValueError for what is neither a number of them nor "all"."""
    if samples is None or samples == "all":
        return "all" if samples else None
    if not isinstance(samples, SupportsIndex) or operator.index(samples) < 1:
        raise ValueError(f'histogram_samples must be at least 1, "all", or None for a few, not {samples!r}')
    return operator.index(samples)


def tenth_of_memory(device: torch.device) -> int:
    """A tenth of the device's memory, in bytes."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 10
