"""Symmetric logarithmic bins, read off the bits of floating-point numbers.

Sign and exponent of a number are its *code*. The code decides the bin, and costs far less than a logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins between powers of two, the same on both sides of zero.

    Magnitudes below 2^lowest are in the middle bin, together with zero; those from 2^highest on in the outermost bin of
    their sign, together with infinity and NaN. A magnitude on an edge belongs to the bin further out.
    """

    lowest: int
    highest: int
    stride: int = 1
    """Powers of two that a bin spans; they divide highest - lowest."""

    def edges(self) -> list[float]:
        """Edges of the bins, ascending; the outermost bins reach to infinity."""
        positive = [math.ldexp(1.0, power) for power in range(self.lowest, self.highest + 1, self.stride)]
        return [-math.inf, *(-edge for edge in reversed(positive)), *positive, math.inf]

    @property
    def sides(self) -> int:
        """Bins on each side of the middle one."""
        return (self.highest - self.lowest) // self.stride + 1

    def __len__(self) -> int:
        return 2 * self.sides + 1

    def of_codes(self, layout: Layout, device: torch.device) -> Tensor:
        """The bin of each code of a format, (codes,) int64. Zero has the lowest exponent, infinity the highest."""
        code = torch.arange(layout.codes, device=device)
        half = layout.codes // 2
        power = code % half - (half // 2 - 1)
        away = (torch.div(power - self.lowest, self.stride, rounding_mode="floor") + 1).clamp_(0, self.sides)
        return self.sides + torch.where(code < half, away, -away)


@dataclass(frozen=True, slots=True)
class Layout:
    """A floating-point format of IEEE 754: integers of the same size, and the bits of the mantissa and exponent."""

    integer: torch.dtype
    mantissa: int
    exponent: int

    @property
    def codes(self) -> int:
        """Number of codes."""
        return 2 << self.exponent

    def code(self, values: Tensor) -> Tensor:
        """The codes of values of this format, integers of the same shape."""
        return (values.view(self.integer) >> self.mantissa).bitwise_and_(self.codes - 1)


LAYOUTS = {torch.float32: Layout(torch.int32, 23, 8), torch.float64: Layout(torch.int64, 52, 11)}
"""The formats whose codes are read. Narrower ones fit into float32 without loss."""


def readable(dtype: torch.dtype) -> torch.dtype:
    """The format in which numbers of a type are read."""
    return dtype if dtype in LAYOUTS else torch.float32


def bins_of(values: Tensor, bins: Bins) -> Tensor:
    """The bin of each value, integers as wide as the values are read."""
    layout = LAYOUTS[readable(values.dtype)]
    codes = layout.code(values.to(readable(values.dtype)).contiguous())
    return bins_of_codes(bins, layout, values.device).to(layout.integer)[codes]


@lru_cache(maxsize=64)
def bins_of_codes(bins: Bins, layout: Layout, device: torch.device) -> Tensor:
    """`Bins.of_codes`, made once."""
    with torch.inference_mode(False):
        return bins.of_codes(layout, device)
