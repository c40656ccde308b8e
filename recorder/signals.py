"""Requests to stop, seen on the way to whoever else handles them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_WATCHED = (signal.SIGTERM, signal.SIGINT)


class SignalWatch:
    """Chains handlers for SIGTERM and SIGINT in front of the present ones, and puts those back.

    `notice(name, final)` is called first; `final` says that the process is about to end without any more Python, as it
    does where nobody but the default handled SIGTERM. Signals that are ignored stay ignored.
    """

    def __init__(self, notice: Callable[[str, bool], None]) -> None:
        self._notice = notice
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Chain the handlers; only Python's main thread may, elsewhere this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _WATCHED:
            previous = signal.getsignal(number)
            if previous is not None and previous != signal.SIG_IGN:
                self._before[number] = previous
                signal.signal(number, self._handle)

    def restore(self) -> None:
        """Put back what was there. Where somebody has chained a handler since, ours goes on passing signals through."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in [each for each in self._before if signal.getsignal(each) == self._handle]:
            signal.signal(number, self._before.pop(number))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        previous = self._before.get(number, signal.SIG_DFL)
        self._notice(signal.Signals(number).name, previous == signal.SIG_DFL)
        if callable(previous):
            previous(number, frame)
        elif previous == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
