"""Rows of metrics and events whose values are still on the device when they are logged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .buffer import arrival, to_host
from .precision import widest

CAPACITY = 1024
"""Device values between two drains; the store grows where one step brings more."""


@dataclass(frozen=True, slots=True)
class _At:
    """Position of a value in the device store."""

    position: int


@dataclass(frozen=True, slots=True, eq=False)
class DeferredRows:
    """Drained rows: `(table, columns)` once `wait` has returned."""

    _rows: list[tuple[str, dict[str, Any]]]
    _values: Tensor
    wait: Callable[[], object]

    def resolved(self) -> list[tuple[str, dict[str, Any]]]:
        """The rows with host numbers; the detail of an event as JSON, where a non-finite number is a string."""
        values = self._values.tolist()
        return [(table, {name: _encoded(_resolve(v, values)) for name, v in row.items()}) for table, row in self._rows]


class Deferred:
    """A preallocated device store for values that can wait, and the host rows that refer to them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._values = torch.zeros(CAPACITY, dtype=widest(device), device=device)
        self._used = 0
        self._rows: list[tuple[str, dict[str, Any]]] = []

    @property
    def full(self) -> bool:
        """Whether a drain is due."""
        return self._used >= CAPACITY // 2 or len(self._rows) >= CAPACITY

    def add(self, table: str, columns: Mapping[str, Any]) -> None:
        """Add a row; 0-d tensors among its values (and inside its mappings) are copied on the device."""
        self._rows.append((table, {name: self._stored(value) for name, value in columns.items()}))

    def _stored(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._stored(item) for key, item in value.items()}
        if not isinstance(value, Tensor):
            return value
        if self._used >= len(self._values):
            self._values = torch.cat([self._values, torch.zeros_like(self._values)])
        position, self._used = self._used, self._used + 1
        self._values[position].copy_(value.detach())
        return _At(position)

    def drain(self) -> DeferredRows | None:
        """Copy what is stored to the host, asynchronously where the device can; None if there is nothing."""
        if not self._rows:
            return None
        rows, used, self._rows, self._used = self._rows, self._used, [], 0
        return DeferredRows(rows, to_host(self._values[:used]), arrival(self._device))


def _resolve(value: Any, values: list[float]) -> Any:
    if isinstance(value, _At):
        return values[value.position]
    if isinstance(value, dict):
        return {key: _finite(_resolve(item, values)) for key, item in value.items()}
    return value


def _finite(value: Any) -> Any:
    """JSON has no NaN: a non-finite number inside a detail becomes its name."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _encoded(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, dict) else value
