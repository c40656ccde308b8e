"""Histograms of the entries of individual gradients, for each parameter tensor.

Schneider, Dangel & Hennig 2021, section 3. The bins are symmetric and logarithmic, so that neither vanishing nor
exploding entries leave them; their edges stand in the run file.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..samplewise import in_chunks
from ..schema import HISTOGRAMS
from ..second_moments import groups
from ..step import Step
from .base import Instrument

LOWEST, HIGHEST = -24, 8
"""Powers of two between which magnitudes are told apart; the middle bin takes smaller ones, the outermost larger."""
SAMPLES = 16
"""Samples of a step, from its first pass, whose gradients are counted."""
ENTRIES = 1 << 18
"""Entries beyond which fewer samples are, down to one: a large model has enough of them in a single gradient."""


def edges() -> list[float]:
    """Edges of the bins, ascending: the outermost bins reach to infinity, the middle one spans zero."""
    positive = [math.ldexp(1.0, power) for power in range(LOWEST, HIGHEST + 1)]
    return [-math.inf, *(-edge for edge in reversed(positive)), *positive, math.inf]


BINS = len(edges()) - 1


class GradientHistogram(Instrument):
    """Exact counts of all entries of the gradients of the first samples, a layer at a time."""

    name = "gradient-histogram"
    columns = (HISTOGRAMS["counts"], HISTOGRAMS["samples"])
    needs_layers = True

    def wants(self, index: int, probed: bool) -> bool:
        return probed and not self.context.capture.hopeless

    @torch.no_grad()
    def collect(self, step: Step) -> None:
        passes = self.context.passes
        if passes.usable is None:
            return
        before = self.context.values_at_calls()
        factor = passes.samples if step.scale is None else passes.samples / step.scale
        counts: dict[int, Tensor] = {}
        one = passes.passes[0]
        entries = sum(p.numel() for p in self.context.tensors.parameters)
        samples = min(SAMPLES, one.kept, max(1, ENTRIES // max(entries, 1)))
        for group in groups(passes.usable.units):
            for parts in in_chunks(group, one, before, samples):
                for position, part in parts.items():
                    found = histogram(part * factor)
                    counts[position] = counts[position] + found if position in counts else found
        step.put_histograms(counts, samples)


def histogram(values: Tensor) -> Tensor:
    """Exact counts (BINS,), int64, of the values by the bins of `edges`; NaN counts as infinite.

    Sign and exponent are read off the bits of the numbers: that is the bin, and far cheaper than a logarithm.
    """
    flat = values.flatten()
    flat = flat if flat.dtype in _LAYOUTS else flat.float()
    integer, mantissa, exponent = _LAYOUTS[flat.dtype]
    codes = (flat.view(integer) >> mantissa).bitwise_and_(2 ** (exponent + 1) - 1)
    one = torch.ones((), dtype=torch.int64, device=flat.device)
    counts = one.new_zeros(2 ** (exponent + 1)).index_add_(0, codes, one.expand(len(codes)))
    return one.new_zeros(BINS).index_add_(0, _bin_of(codes.device, exponent), counts)


_LAYOUTS = {torch.float32: (torch.int32, 23, 8), torch.float64: (torch.int64, 52, 11)}
"""Integers of the same size, bits of the mantissa and bits of the exponent, of the formats of IEEE 754."""


def _bin_of(device: torch.device, exponent: int) -> Tensor:
    """The bin of each code, sign bit and exponent, (2^(exponent+1),); zero has the lowest exponent."""
    codes = torch.arange(2 ** (exponent + 1), device=device)
    power = codes % 2**exponent - (2 ** (exponent - 1) - 1)
    away = (power - LOWEST + 1).clamp_(0, HIGHEST - LOWEST + 1)
    return BINS // 2 + torch.where(codes < 2**exponent, away, -away)
