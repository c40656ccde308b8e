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
        samples = min(SAMPLES, one.kept)
        for group in groups(passes.usable.units):
            for parts in in_chunks(group, one, before, samples):
                for position, part in parts.items():
                    found = histogram(part * factor)
                    counts[position] = counts[position] + found if position in counts else found
        step.put_histograms(counts, samples)


def histogram(values: Tensor) -> Tensor:
    """Counts (BINS,) of the values by the bins of `edges`, exact for up to 2^24 values in float32; NaN is not counted.

    A magnitude m falls into the bin of floor(log2 m), which `frexp` reads off without a logarithm.
    """
    flat = values.flatten()
    power = torch.frexp(flat)[1].to(flat.dtype).clamp_(LOWEST, HIGHEST + 1) - LOWEST
    power = torch.where(flat.isinf(), float(HIGHEST + 1 - LOWEST), power)
    signed = torch.where(flat.isnan(), float(BINS), power * flat.sign())  # outside of all bins
    return torch.histc(signed, BINS, -(BINS // 2) - 0.5, BINS // 2 + 0.5)
