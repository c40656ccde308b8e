"""Requests to stop, seen on the way to whoever else handles them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_WATCHED = (signal.SIGTERM, signal.SIGINT)
_installed: list[SignalWatch] = []
"""All watches of this process, the newest last."""


class SignalWatch:
    """Chains handlers for SIGTERM and SIGINT in front of the present ones, and puts those back.

    `notice(name)` is called first. Where the process is about to end without any more Python, as it does if nobody but
    the default handles SIGTERM, `last(name)` of every watch is called, the newest first: recorders may be nested.
    Signals that are ignored stay ignored.
    """

    def __init__(self, notice: Callable[[str], None], last: Callable[[str], None]) -> None:
        self._notice, self._last = notice, last
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Chain the handlers; only Python's main thread may, elsewhere this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        _installed.append(self)
        for number in _WATCHED:
            previous = signal.getsignal(number)
            if previous is not None and previous != signal.SIG_IGN:
                self._before[number] = previous
                signal.signal(number, self._handle)

    def restore(self) -> None:
        """Put back what was there. Where somebody has chained a handler since, ours goes on passing signals through."""
        if self in _installed:
            _installed.remove(self)
        if threading.current_thread() is not threading.main_thread():
            return
        for number in [each for each in self._before if signal.getsignal(each) == self._handle]:
            signal.signal(number, self._before.pop(number))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        previous = self._before.get(number, signal.SIG_DFL)
        name = signal.Signals(number).name
        self._notice(name)
        if callable(previous):
            previous(number, frame)
        elif previous == signal.SIG_DFL:
            for watch in reversed(_installed.copy()):
                watch._last(name)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
