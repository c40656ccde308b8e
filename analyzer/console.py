"""Standard output and standard error: results on the one, progress and complaints on the other."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TextIO

from .wording import plain, visible


def prepare() -> None:
    """Characters that the terminal's encoding lacks become question marks instead of errors."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


def emit(text: str) -> None:
    """Writes a result. A reader that went away (`| head`) has seen enough: no complaint."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # What the interpreter still flushes at its end must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(sentence: str) -> None:
    """Writes an error: one line that says whose it is."""
    sys.stderr.write(f"glideslope: {visible(plain(sentence))}\n")
    sys.stderr.flush()


class Progress:
    """A line on stderr that is overwritten; where stderr is no terminal, nothing, or (`always`) a line each."""

    def __init__(self, *, always: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._always = always
        self._terminal = self._stream.isatty()

    def show(self, text: str) -> None:
        """What is being done now."""
        if self._terminal:
            self._stream.write(f"\r\x1b[K{text}")
        elif self._always:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
