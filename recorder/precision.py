"""The precision that sums and means are kept in."""

from __future__ import annotations

import torch


def widest(device: torch.device) -> torch.dtype:
    """float64 where the device has it, else float32."""
    return torch.float32 if device.type == "mps" else torch.float64
