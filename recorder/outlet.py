"""From the device to the disk: the buffers that instruments fill, and when they are drained to the writer."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from .attempt import Attempt
from .buffer import Buffer
from .deferred import Deferred
from .directory import RunDirectory
from .tensors import Tensors
from .window import Window
from .writer import Writer


class Outlet:
    """Owns the buffers and the writer of one process."""

    def __init__(
        self,
        directory: RunDirectory,
        attempt: Attempt,
        run_id: Callable[[], str],
        tensors: Tensors,
        device: torch.device,
    ) -> None:
        double = any(parameter.dtype == torch.float64 for parameter in tensors.parameters)
        self.buffer = Buffer(device, len(tensors), torch.float64 if double else torch.float32)
        self.deferred = Deferred(device)
        window = Window(tensors.names, alone=attempt.rank_count == 1)
        self.writer = Writer(directory, attempt, run_id, window)
        self._due = time.monotonic() + self.writer.interval

    @property
    def due(self) -> bool:
        """Whether to drain before the next step: the block is full, or a flush is near."""
        return self.buffer.full or self.deferred.full or time.monotonic() >= self._due

    def hurry(self) -> None:
        """Drain before the next step, whatever the time."""
        self._due = 0.0

    def drain(self, reason: str | None = None) -> None:
        """Hand all finished steps, metrics and events to the writer; `reason` says why to keep the steps in full."""
        self.writer.submit(self.buffer.drain(), reason)
        self.drain_deferred()
        if time.monotonic() >= self._due:  # drained and written at once, so that no step waits longer than one interval
            self.writer.flush_soon()
            self._due = time.monotonic() + self.writer.interval

    def drain_deferred(self) -> None:
        """Hand over metrics and events only; allowed while a step is open."""
        rows = self.deferred.drain()
        if rows is not None:
            self.writer.submit_rows(rows)
