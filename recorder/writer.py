"""The background thread that turns drained blocks into shards and flushes them. It never raises into the training."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from . import schema
from .attempt import Attempt
from .buffer import Block
from .deferred import DeferredRows
from .directory import RunDirectory, parquet
from .tables import rows_table
from .window import Window

logger = logging.getLogger("glideslope")

FLUSH_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
FLUSH_SHARE = 0.01
FLUSH_MOST = 300.0
PENDING_MOST = 2_000_000
"""Rows held while the disk refuses them; beyond it the oldest are given up, and counted."""


def flush_interval(flushes: int, elapsed: float) -> float:
    """Seconds until the next flush: 1, 2, 4, ... 30, later 1 % of the elapsed time, at most five minutes."""
    if flushes < len(FLUSH_SECONDS):
        return FLUSH_SECONDS[flushes]
    return min(max(FLUSH_SECONDS[-1], FLUSH_SHARE * elapsed), FLUSH_MOST)


class Writer:
    """Owns the thread. The training calls the public methods, everything else happens in the thread."""

    def __init__(self, directory: RunDirectory, attempt: Attempt, run_id: Callable[[], str], window: Window) -> None:
        self._directory = directory
        self._attempt = attempt
        self._run_id = run_id
        self._window = window
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._pending: dict[str, list[pa.Table]] = defaultdict(list)
        self._calls: list[Callable[[], object]] = []
        self._sequence: dict[str, int] = defaultdict(int)
        self._began = time.monotonic()
        self._flushes = 0
        self._waiting_since = self._began
        """When the oldest row that waits came in, or was last refused by the disk."""
        self.error: Exception | None = None
        """The last thing that went wrong in the thread."""
        self._thread = threading.Thread(target=self._work, name="glideslope-writer", daemon=True)
        self._thread.start()

    @property
    def interval(self) -> float:
        """Seconds between flushes at present."""
        return flush_interval(self._flushes, time.monotonic() - self._began)

    def submit(self, block: Block, reason: str | None = None) -> None:
        """Hand over drained steps; `reason` says why all of them must be kept in full."""
        self._queue.put(("block", (block, reason)))

    def submit_rows(self, rows: DeferredRows) -> None:
        """Hand over metrics and events."""
        self._queue.put(("rows", rows))

    def call(self, action: Callable[[], object]) -> None:
        """Run something in the thread, such as writing the run file; again at the next flush if the disk refuses."""
        self._queue.put(("call", action))

    def flush_soon(self) -> None:
        """Write all that was handed over, without waiting until it is done."""
        self._flushes += 1
        self._queue.put(("flush", threading.Event()))

    def flush(self, timeout: float = 60.0) -> bool:
        """Write all that was handed over; whether it was done within `timeout` seconds."""
        done = threading.Event()
        self._queue.put(("flush", done))
        return done.wait(timeout)

    def close(self, timeout: float = 60.0) -> bool:
        """Flush and end the thread; whether everything was written."""
        done = self.flush(timeout)
        self._queue.put(("stop", None))
        self._thread.join(timeout)
        return done and not self._waiting

    def _work(self) -> None:
        while True:
            try:
                kind, item = self._queue.get(timeout=self._patience())
            except queue.Empty:  # the training is busy with something else: nothing was drained for a while
                self._flushes += 1
                self._flush()
                continue
            if kind == "stop":
                return
            if kind == "flush":
                self._flush()
                item.set()
            else:
                self._guarded(lambda kind=kind, item=item: self._take(kind, item))  # type: ignore[misc]

    @property
    def _waiting(self) -> bool:
        return bool(self._calls) or any(self._pending.values())

    def _patience(self) -> float | None:
        """Seconds until what waits must be written; None if nothing does."""
        if not self._waiting:
            return None
        return max(0.01, self._waiting_since + self.interval - time.monotonic())

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            if self.error is None or type(self.error) is not type(error):
                logger.warning("glideslope could not write to %s: %s", self._directory.where, error)
            self.error = error

    def _take(self, kind: str, item: Any) -> None:
        if kind == "call":
            self._calls.append(item)
            self._call()
        elif kind == "rows":
            item.wait()
            for table, row in item.resolved():
                self._append(table, rows_table(schema.TABLES[table], [row]))
        else:
            block, reason = item
            block.wait()
            for table, rows in self._window.take(block, reason):
                self._append(table, rows)

    def _append(self, table: str, rows: pa.Table) -> None:
        if not self._waiting:
            self._waiting_since = time.monotonic()
        self._pending[table].append(rows)

    def _flush(self) -> None:
        self._waiting_since = time.monotonic()
        self._guarded(self._call)
        for table in [name for name, waiting in self._pending.items() if waiting]:
            self._guarded(lambda table=table: self._flush_table(table))  # type: ignore[misc]

    def _call(self) -> None:
        """Make the calls that wait, in order; one that the disk refuses goes on waiting."""
        while self._calls:
            action = self._calls.pop(0)
            try:
                action()
            except OSError:
                self._calls.insert(0, action)
                raise

    def _flush_table(self, table: str) -> None:
        """Write one shard. What the disk refuses stays pending for the next flush, up to a limit."""
        rows = pa.concat_tables(self._pending[table])
        name = schema.shard_name(table, self._attempt.number, self._attempt.rank, self._sequence[table])
        metadata = {"glideslope.format": str(schema.FORMAT), "glideslope.run_id": self._run_id()}
        try:
            self._directory.write(name, parquet(rows.unify_dictionaries(), metadata))
        except OSError:
            self._give_up(table, rows)
            raise
        self._pending[table] = []
        self._sequence[table] += 1

    def _give_up(self, table: str, rows: pa.Table) -> None:
        lost = rows.num_rows - PENDING_MOST
        if lost <= 0:
            return
        self._pending[table] = [rows.slice(lost)]
        message = f"{lost} rows of {table} could not be written and were given up"
        detail = json.dumps({"table": table, "rows": lost})
        self._append("events", rows_table(schema.EVENTS, [{"kind": "lost", "message": message, "detail": detail}]))
