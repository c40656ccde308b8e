"""Which rows of a block are kept: the flight recorder's window.

Rows of `steps` are always kept. Rows of `layers` are kept at probes; those in between are held until WINDOW later steps
were drained, and written when something happens, so that the steps before an incident are complete.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from . import schema
from .buffer import BLOCK, Block
from .consistency import REASON, SCATTER
from .incidents import LIMIT, Incident, Watch
from .tables import histograms_table, layers_table, rows_table, steps_table

WINDOW = BLOCK
"""Drained steps that the host holds in full."""

Piece = tuple[str, pa.Table]
"""A table's name, and rows of it."""


class Window:
    """Turns blocks into rows to write, block by block."""

    def __init__(self, tensors: Sequence[str], alone: bool = True) -> None:
        self._tensors = list(tensors)
        self._alone = alone
        """Whether this is the only rank: a gradient averaged over ranks is not that of one rank's samples."""
        self._told = False
        self._watches = (Watch("loss"), Watch("grad_norm"))
        self._held: deque[tuple[Block, list[int]]] = deque()
        """Blocks, and the positions of those of their rows that were not written."""
        self._incidents = 0
        self._last = 0
        """The newest step that was drained."""

    def take(self, block: Block, reason: str | None = None) -> Iterator[Piece]:
        """Rows to write now that a block has arrived; `reason` says why all of it must be kept."""
        found = []
        if block.rows:
            steps, dropped = steps_table(block, checked=self._alone)
            _forget(block, {i for name in SCATTER for i in dropped.get(name, ())})
            self._last = steps["step"][-1].as_py()
            found = self._found(steps)
            yield "steps", steps
            if dropped and not self._told:
                self._told = True
                yield "events", rows_table(schema.EVENTS, [_dropped(dropped, self._last)])
            yield from _other_rows(block)
            histograms = histograms_table(block, self._tensors)
            if histograms is not None:
                yield "histograms", histograms
        if reason is not None:
            found.append(Incident(reason, "", self._last))
        yield from self._layers(block, complete=bool(found))
        if found:
            yield "events", rows_table(schema.EVENTS, [_event(one, block) for one in found])

    def _layers(self, block: Block, complete: bool) -> Iterator[Piece]:
        probed = [i for i, row in enumerate(block.rows) if row.host.get("probed")]
        kept = list(range(len(block.rows))) if complete else probed
        if complete:
            for held in self._held:
                yield from self._rows(*held)
            self._held.clear()
        yield from self._rows(block, kept)
        self._hold(block, sorted(set(range(len(block.rows))) - set(kept)))

    def _hold(self, block: Block, rest: list[int]) -> None:
        """Blocks are short where a flush was due: hold as many as WINDOW steps need."""
        self._held.append((block, rest))
        while sum(len(held.rows) for held, _ in self._held) - len(self._held[0][0].rows) >= WINDOW:
            self._held.popleft()

    def _rows(self, block: Block, kept: list[int]) -> Iterator[Piece]:
        if kept and self._tensors:
            yield "layers", layers_table(block, kept, self._tensors)

    def _found(self, steps: pa.Table) -> list[Incident]:
        numbers = steps["step"].to_pylist()
        found = [i for watch in self._watches for i in watch.incidents(numbers, steps[watch.column].to_pylist())]
        kept = found[: max(0, LIMIT - self._incidents)]
        self._incidents += len(kept)
        return kept


def _other_rows(block: Block) -> Iterator[Piece]:
    """The rows of host values that instruments added to their steps."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for table, row in (pair for each in block.rows for pair in each.rows):
        found[table].append(row)
    for table, rows in found.items():
        yield table, rows_table(schema.TABLES[table], rows)


def _forget(block: Block, rows: Iterable[int]) -> None:
    """Drop what was measured of individual gradients, tensor by tensor, in rows where they are not the whole."""
    for row in (block.rows[i] for i in rows):
        row.histograms = None
        for column in SCATTER:
            row.tensors.pop(column, None)


def _dropped(names: Iterable[str], step: int) -> dict[str, Any]:
    columns = [f"steps.{name}" for name in names]
    detail = json.dumps({"columns": columns, "reason": REASON})
    return {"step": step, "kind": "not-measured", "message": f"{', '.join(columns)}: {REASON}", "detail": detail}


def _event(incident: Incident, block: Block) -> dict[str, Any]:
    times = {row.host["step"]: row.host.get("time") for row in block.rows}
    return {
        "step": incident.step,
        "time": times.get(incident.step),
        "kind": "incident",
        "message": str(incident),
        "detail": json.dumps({"what": incident.what, "column": incident.column or None}),
    }
