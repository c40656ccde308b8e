"""Precisions: the one that sums and means are kept in, and tensors in another one than they have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def widest(device: torch.device) -> torch.dtype:
    """float64 where the device has it, else float32."""
    return torch.float32 if device.type == "mps" else torch.float64


def widened(value: Any) -> Any:
    """A tensor of half precision in float32, anything else as it is."""
    return value.float() if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16) else value


def in_precision(dtype: torch.dtype, value: Any) -> Any:
    """A floating tensor in the precision of the parameters (autocast may have lowered it), anything else as it is."""
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
