"""The device buffer: preallocated rows that instruments fill without synchronising, drained block by block.

A row holds the device columns of `steps`, and one value per parameter tensor for each device column of `layers` (in the
precision of the parameters: converting them would cost as much as the norms). What the host knows stays on the host.
Nothing small is allocated and kept per step: that would pin the allocator's heap between the gradients of successive
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from . import schema
from .precision import widest

BLOCK = 64
"""Steps between two drains."""

_SCALARS = {c.name: i for i, c in enumerate(c for c in schema.STEPS.columns.values() if c.dtype == "float64")}
_PER_TENSOR = {c.name: i for i, c in enumerate(c for c in schema.LAYERS.columns.values() if c.dtype == "float32")}


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Counts of the tensors at some positions, each over a number of samples."""

    positions: tuple[int, ...]
    counts: Tensor | None
    """(tensors, bins)"""
    joint: Tensor | None
    """(tensors, joint bins)"""
    samples: tuple[int, ...]

    def on_host(self) -> Histograms:
        """The same on the host: read it only after `arrival`."""
        return Histograms(
            self.positions,
            None if self.counts is None else to_host(self.counts),
            None if self.joint is None else to_host(self.joint),
            self.samples,
        )


@dataclass(slots=True, eq=False)
class Row:
    """The row of one step: where its device values go, and what the host knows about it."""

    slot: int
    _buffer: Buffer
    host: dict[str, object] = field(default_factory=dict)
    device: set[str] = field(default_factory=set)
    """Columns of `steps` that were written on the device."""
    vectors: set[str] = field(default_factory=set)
    tensors: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    """Columns of `layers` that were written, with the positions of the tensors, None for all."""
    rows: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    histograms: Histograms | None = None

    def put(self, column: str, value: Tensor | float | int | bool) -> None:
        """Set a column of `steps` from a host number or a 0-d tensor."""
        if isinstance(value, Tensor):
            self._buffer.cell(column, self.slot).copy_(value)
            self.device.add(column)
        else:
            self.host[column] = value

    def add(self, column: str, value: Tensor) -> None:
        """Add a 0-d tensor to a column of `steps`; the first call sets it."""
        if column in self.device:
            self._buffer.cell(column, self.slot).add_(value)
        else:
            self.put(column, value)

    def put_vector(self, column: str, value: Tensor) -> None:
        """Set a list column of `steps` from a tensor (n,); one of another length than the first stays null."""
        rows = self._buffer.vector(column, len(value))
        if rows.shape[1] == len(value):
            rows[self.slot].copy_(value)
            self.vectors.add(column)

    def put_tensors(self, column: str, values: list[Tensor], positions: tuple[int, ...] | None) -> None:
        """Set a column of `layers` from 0-d tensors, one for each position (None: for every tensor)."""
        if not values:
            return
        target = self._buffer.line(column, self.slot)
        if positions is not None:  # indexing by a list would upload it, which waits for the device
            given = dict(zip(positions, values, strict=True))
            nothing = torch.zeros_like(values[0])
            values = [given.get(position, nothing) for position in range(len(target))]
        torch.stack(values, out=target)
        self.tensors[column] = positions


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Drained rows on the host. `wait` returns once the asynchronous copy has arrived."""

    rows: list[Row]
    values: Tensor
    """(rows, float columns of `steps`)"""
    tensors: Tensor
    """(rows, float columns of `layers` x tensors)"""
    vectors: Mapping[str, Tensor]
    tensor_count: int
    wait: Callable[[], object]

    def scalars(self, column: str) -> list[float | None] | None:
        """A float column of `steps`, with null where neither the device nor the host wrote it.

        None where no row has it.
        """
        if not any(column in row.device or column in row.host for row in self.rows):
            return None
        values = self.values[:, _SCALARS[column]].tolist()
        return [
            value if column in row.device else row.host.get(column)  # type: ignore[misc]
            for row, value in zip(self.rows, values, strict=True)
        ]

    def per_tensor(self, column: str) -> Tensor:
        """A column of `layers` for every row and parameter tensor, (rows, tensors); only what was written counts."""
        return self.tensors[:, _span(column, self.tensor_count)]


class Buffer:
    """BLOCK rows on the parameters' device, in float64 (float32 where the device has no float64).

    `precision`: of the columns of `layers`, float64 for a model in float64.
    """

    def __init__(self, device: torch.device, tensor_count: int, precision: torch.dtype = torch.float32) -> None:
        self.device = device
        self.tensor_count = tensor_count
        self.dtype = widest(device)
        self._values = torch.zeros(BLOCK, len(_SCALARS), dtype=self.dtype, device=device)
        self._tensors = torch.zeros(BLOCK, len(_PER_TENSOR) * tensor_count, dtype=precision, device=device)
        self._vectors: dict[str, Tensor] = {}
        self._views: dict[tuple[str, int], Tensor] = {}
        self._rows: list[Row] = []

    def row(self) -> Row:
        """The next free row. Drain before asking when `full`."""
        row = Row(len(self._rows), self)
        self._rows.append(row)
        return row

    def discard(self, row: Row) -> None:
        """Give back the newest row, of a step that never ran."""
        if self._rows and self._rows[-1] is row:
            self._rows.pop()

    @property
    def full(self) -> bool:
        """Whether a drain is due."""
        return len(self._rows) >= BLOCK

    def vector(self, column: str, size: int) -> Tensor:
        """The rows of a list column, (BLOCK, size), allocated at its first use."""
        if column not in self._vectors:
            self._vectors[column] = torch.zeros(BLOCK, size, dtype=self.dtype, device=self.device)
        return self._vectors[column]

    def cell(self, column: str, slot: int) -> Tensor:
        """The 0-d place of a float column of `steps` in a row; the view is made once."""
        if (column, slot) not in self._views:
            self._views[column, slot] = self._values[slot, _SCALARS[column]]
        return self._views[column, slot]

    def line(self, column: str, slot: int) -> Tensor:
        """The place of a column of `layers` in a row, (tensors,); the view is made once."""
        key = f"layers.{column}", slot
        if key not in self._views:
            self._views[key] = self._tensors[slot, _span(column, self.tensor_count)]
        return self._views[key]

    def drain(self) -> Block:
        """Copy all rows to the host, asynchronously where the device can, and free them."""
        rows, self._rows = self._rows, []
        values, tensors = to_host(self._values[: len(rows)]), to_host(self._tensors[: len(rows)])
        for row in rows:
            if row.histograms is not None:
                row.histograms = row.histograms.on_host()
        vectors = {name: to_host(stored[: len(rows)]) for name, stored in self._vectors.items()}
        return Block(rows, values, tensors, vectors, self.tensor_count, arrival(self.device))


def _span(column: str, tensor_count: int) -> slice:
    first = _PER_TENSOR[column] * tensor_count
    return slice(first, first + tensor_count)


def to_host(values: Tensor) -> Tensor:
    """A copy on the host, asynchronous from a CUDA device: read it only after `arrival`."""
    if values.device.type != "cuda":
        return values.to("cpu", copy=True)
    pinned = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return pinned.copy_(values, non_blocking=True)


def arrival(device: torch.device) -> Callable[[], object]:
    """A call that returns when the copies issued so far have arrived."""
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event.synchronize
