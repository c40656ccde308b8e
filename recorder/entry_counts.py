"""Exact counts of the entries of individual gradients: by their value, and by the parameter's element they belong to.

The parts of a layer are made once, a chunk of samples at a time. Several tensors are counted together, since on small
ones it is the operations that cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .bins import LAYOUTS, Bins, Layout, bins_of, bins_of_codes, readable
from .passes import Passes
from .plan import Unit
from .samplewise import in_chunks

ENTRY_BINS = Bins(-24, 8)
"""Of the entries alone: every power of two from 6e-8, the precision of float32, to 256; 67 bins."""
JOINT_ENTRY_BINS = Bins(-24, 6, 3)
"""Of the entries beside the parameters: every third power of two, so that each bin is some of `ENTRY_BINS`; 23 bins."""
PARAMETER_BINS = Bins(-13, 3, 2)
"""Of the parameters: powers of four from 1.2e-4 to 8, half-way so that 1, where the scales of norms begin, is well
within a bin; 19 bins."""
SAMPLES = 16
"""Samples of a step whose gradients are counted unless the user says otherwise."""
ENTRIES = 1 << 16
"""Entries of a layer beyond which fewer samples are, down to one: a large layer has enough in a single gradient."""
TOGETHER = 1 << 18
"""Entries that are waited for before they are counted,"""
TENSORS = 64
"""and tensors: each has a table of all codes while it is counted."""


@dataclass(slots=True, eq=False)
class EntryCounts:
    """Of one tensor over some samples, int64: by bin of the entry (67,), and by both bins (23 * 19,) if asked for."""

    counts: Tensor
    joint: Tensor | None
    samples: int

    def add(self, more: EntryCounts) -> None:
        """Add the counts of further samples."""
        self.counts.add_(more.counts)
        if self.joint is not None and more.joint is not None:
            self.joint.add_(more.joint)
        self.samples += more.samples


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Parts (samples, *shape) of one tensor, and the bins (*shape) of its elements where they matter."""

    position: int
    parts: Tensor
    elements: Tensor | None


def count_entries(
    passes: Passes, before: list[Tensor], factor: Tensor | float, most: int | None, joint: bool
) -> dict[int, EntryCounts]:
    """Counts by tensor position. A unit whose parts cannot be had leaves the plan: then not every tensor has counts.

    `factor`: makes a part the gradient of its sample. `most`: samples to count at most; None for a few, by the layer's
    size. `joint`: whether to count by the bins of the parameters too.
    """
    found: dict[int, EntryCounts] = {}
    waiting: list[Entries] = []
    size = 0
    for entries in _of_all(passes, before, most, joint):
        waiting.append(entries)
        size += entries.parts.numel()
        if size >= TOGETHER or len(waiting) == TENSORS:
            _count(waiting, factor, found)
            waiting, size = [], 0
    _count(waiting, factor, found)
    return found


def _of_all(passes: Passes, before: list[Tensor], most: int | None, joint: bool) -> Iterator[Entries]:
    """The entries of every tensor of the plan, a layer and a chunk of samples at a time."""
    for group in passes.groups:
        try:
            yield from _of_group(group, passes, before, most, joint)
        except (ValueError, RuntimeError, NotImplementedError) as error:
            passes.give_up(group, error)


def _of_group(
    group: Sequence[Unit], passes: Passes, before: list[Tensor], most: int | None, joint: bool
) -> Iterator[Entries]:
    positions = {i for unit in group for i in unit.parameters.values()}
    size = sum(before[i].numel() for i in positions)
    left = min(SAMPLES, max(1, ENTRIES // max(size, 1))) if most is None else most
    elements = {i: bins_of(before[i], PARAMETER_BINS) for i in positions} if joint else {}
    for one in passes.passes:
        for parts in in_chunks(group, one, before, left):
            left -= len(next(iter(parts.values())))
            for position, part in parts.items():
                yield Entries(position, part, elements.get(position))


def _count(waiting: Sequence[Entries], factor: Tensor | float, found: dict[int, EntryCounts]) -> None:
    """Count what waits, and add it to what was found."""
    for dtype in dict.fromkeys(readable(each.parts.dtype) for each in waiting):
        alike = [each for each in waiting if readable(each.parts.dtype) == dtype]
        for each, counted in zip(alike, counts_of(alike, factor), strict=True):
            if each.position in found:
                found[each.position].add(counted)
            else:
                found[each.position] = counted


def counts_of(waiting: Sequence[Entries], factor: Tensor | float = 1.0) -> list[EntryCounts]:
    """Exact counts of parts times `factor`, all read in one format, and all with the bins of elements or none."""
    dtype, device = readable(waiting[0].parts.dtype), waiting[0].parts.device
    layout = LAYOUTS[dtype]
    sizes = [each.parts.numel() for each in waiting]
    values = torch.empty(sum(sizes), dtype=dtype, device=device)
    for each, place in zip(waiting, values.split(sizes), strict=True):
        torch.mul(each.parts.to(dtype), factor, out=place.view(each.parts.shape))
    width = 1 if waiting[0].elements is None else len(PARAMETER_BINS)
    codes = layout.code(values)
    table = torch.zeros(len(sizes), layout.codes * width, dtype=torch.int64, device=device)
    one = torch.ones((), dtype=torch.int64, device=device)
    for each, code, row in zip(waiting, codes.split(sizes), table.unbind(), strict=True):
        if each.elements is not None:
            code.view(each.parts.shape).mul_(width).add_(each.elements)
        row.index_add_(0, code, one.expand(len(code)))
    by_code = table if width == 1 else table.unflatten(1, (layout.codes, width)).sum(2)
    counts = _merged(by_code, _bins(len(sizes), layout, device), len(ENTRY_BINS))
    joint: Sequence[Tensor | None] = [None] * len(sizes)
    if width > 1:
        joint = _merged(table, _cells(len(sizes), layout, device), len(JOINT_ENTRY_BINS) * width).unbind()
    samples = [len(each.parts) for each in waiting]
    return [EntryCounts(*row) for row in zip(counts.unbind(), joint, samples, strict=True)]


def _merged(table: Tensor, bins: Tensor, count: int) -> Tensor:
    """Counts (rows, codes) as counts (rows, count), given the bin of each code of each row, (rows * codes,)."""
    return table.new_zeros(len(table) * count).index_add_(0, bins, table.flatten()).view(len(table), count)


@lru_cache(maxsize=16)
def _bins(rows: int, layout: Layout, device: torch.device) -> Tensor:
    """The bin of each code of an entry, for each row of a table one after the other."""
    with torch.inference_mode(False):
        return _for_rows(rows, bins_of_codes(ENTRY_BINS, layout, device), len(ENTRY_BINS))


def _cells(rows: int, layout: Layout, device: torch.device) -> Tensor:
    """The same of the joint bin of each pair of an entry's code and a parameter's bin, the latter running fastest."""
    width = len(PARAMETER_BINS)
    entries = bins_of_codes(JOINT_ENTRY_BINS, layout, device).unsqueeze(1)
    pairs = (entries * width + torch.arange(width, device=device)).flatten()
    return _for_rows(rows, pairs, len(JOINT_ENTRY_BINS) * width)


def _for_rows(rows: int, bins: Tensor, count: int) -> Tensor:
    return (bins + count * torch.arange(rows, device=bins.device).unsqueeze(1)).flatten()
