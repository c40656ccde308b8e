"""Which rows of a block are kept: the flight recorder's window.

Rows of `steps` are always kept. Rows of `layers` are kept at probes; those in between are held for one block, and
written when something happens, so that the steps before an incident are complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from . import schema
from .buffer import Block
from .incidents import LIMIT, Incident, Watch
from .tables import layers_table, rows_table, steps_table

Piece = tuple[str, pa.Table]
"""A table's name, and rows of it."""


class Window:
    """Turns blocks into rows to write, block by block."""

    def __init__(self, tensors: Sequence[str]) -> None:
        self._tensors = list(tensors)
        self._watches = (Watch("loss"), Watch("grad_norm"))
        self._held: tuple[Block, list[int]] | None = None
        self._incidents = 0

    def take(self, block: Block, reason: str | None = None) -> Iterator[Piece]:
        """Rows to write now that a block has arrived; `reason` says why all of it must be kept."""
        if not block.rows:
            return
        steps = steps_table(block)
        yield "steps", steps
        for table, row in (pair for each in block.rows for pair in each.rows):
            yield table, rows_table(schema.TABLES[table], [row])
        found = self._found(steps)
        if reason is not None:
            found.append(Incident(reason, "", block.rows[-1].host["step"]))  # type: ignore[arg-type]
        yield from self._layers(block, complete=bool(found))
        if found:
            yield "events", rows_table(schema.EVENTS, [_event(one, block) for one in found])

    def _layers(self, block: Block, complete: bool) -> Iterator[Piece]:
        probed = [i for i, row in enumerate(block.rows) if row.host.get("probed")]
        kept = list(range(len(block.rows))) if complete else probed
        if complete and self._held is not None:
            yield from self._rows(*self._held)
        rest = sorted(set(range(len(block.rows))) - set(kept))
        self._held = None if complete else (block, rest)
        yield from self._rows(block, kept)

    def _rows(self, block: Block, kept: list[int]) -> Iterator[Piece]:
        if kept and self._tensors:
            yield "layers", layers_table(block, kept, self._tensors)

    def _found(self, steps: pa.Table) -> list[Incident]:
        numbers = steps["step"].to_pylist()
        found = [i for watch in self._watches for i in watch.incidents(numbers, steps[watch.column].to_pylist())]
        kept = found[: max(0, LIMIT - self._incidents)]
        self._incidents += len(kept)
        return kept


def _event(incident: Incident, block: Block) -> dict[str, Any]:
    times = {row.host["step"]: row.host.get("time") for row in block.rows}
    return {
        "step": incident.step,
        "time": times.get(incident.step),
        "kind": "incident",
        "message": str(incident),
        "detail": json.dumps({"what": incident.what, "column": incident.column or None}),
    }
