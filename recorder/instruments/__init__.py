"""The instruments, and which of them each preset runs. A new one is a file here, a line in the tuple, columns in `schema.py`."""

from __future__ import annotations

from collections.abc import Mapping

from .alpha import Alpha
from .base import Instrument
from .losses import IndividualLosses
from .norms import GradientNorms, Updates

__all__ = ["INSTRUMENTS", "PRESETS", "Instrument"]

INSTRUMENTS: tuple[type[Instrument], ...] = (GradientNorms, Updates, IndividualLosses, Alpha)
"""In the order in which they run: an instrument may use what an earlier one left in the context."""

_BASIC = (GradientNorms, Updates)
_ECONOMY = (*_BASIC, IndividualLosses, Alpha)

PRESETS: Mapping[str, tuple[type[Instrument], ...]] = {"basic": _BASIC, "economy": _ECONOMY}
"""From the least to the most expensive."""
