"""Histograms of the entries of individual gradients, for each parameter tensor.

Schneider, Dangel & Hennig 2021, section 3. The bins are symmetric and logarithmic, so that neither vanishing nor
exploding entries leave them; their edges stand in the run file.
"""

from __future__ import annotations

from types import MappingProxyType

import torch

from ..entry_counts import ENTRY_BINS, JOINT_ENTRY_BINS, PARAMETER_BINS, count_entries
from ..schema import HISTOGRAMS
from ..step import Step
from .base import Instrument


class EntryHistogram(Instrument):
    """What both have in common: exact counts of all entries of the gradients of some samples, a layer at a time."""

    needs_layers = True

    def wants(self, index: int, probed: bool) -> bool:
        return probed and not self.context.capture.hopeless

    @torch.no_grad()
    def count(self, step: Step, alone: bool, joint: bool) -> None:
        """Put the counts into the step's row: by bin of the entry alone, by bin of the parameter too, or both."""
        passes = self.context.passes
        if passes.usable is None:
            return
        before = self.context.values_at_calls()
        factor = passes.samples if step.scale is None else passes.samples / step.scale
        with torch.autocast(before[0].device.type, enabled=False):
            found = count_entries(passes, before, factor, self._most(), joint)
        if passes.usable is not None:
            step.put_histograms(found, alone, joint)

    def _most(self) -> int | None:
        """Samples to count at most, None for a few."""
        asked = self.context.histogram_samples
        return self.context.passes.samples if asked == "all" else asked


class GradientHistogram(EntryHistogram):
    """Counts of the entries."""

    name = "gradient-histogram"
    columns = (HISTOGRAMS["counts"], HISTOGRAMS["samples"])
    edges = ENTRY_BINS.edges()

    def collect(self, step: Step) -> None:
        self.count(step, alone=True, joint=GradientParameterHistogram.name in step.probing)


class GradientParameterHistogram(EntryHistogram):
    """Counts of the entries against the value of the parameter's element that they belong to."""

    name = "gradient-parameter-histogram"
    columns = (HISTOGRAMS["joint_counts"], HISTOGRAMS["samples"])
    sparse = True
    edges = MappingProxyType({"gradient": JOINT_ENTRY_BINS.edges(), "parameter": PARAMETER_BINS.edges()})

    def collect(self, step: Step) -> None:
        if GradientHistogram.name not in step.probing:  # which counts both in one go
            self.count(step, alone=False, joint=True)
