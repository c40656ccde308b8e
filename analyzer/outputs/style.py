"""Colours and width of a terminal, or the lack of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

_CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34"}


@dataclass(frozen=True, slots=True)
class Style:
    """How to write text: with escape sequences or without, in lines of how many characters."""

    color: bool = False
    width: int = 100

    def paint(self, text: str, color: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
        """The text in a colour (red, green, yellow, blue), bold or dim; as it is where colours are off."""
        codes = [code for code, wanted in (("1", bold), ("2", dim), (_CODES.get(color or "", ""), color)) if wanted]
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.color and codes else text


def style_of(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Style:
    """Colours only for a terminal that has them, and where NO_COLOR is not set; its width, at most 120."""
    if not stream.isatty():
        return Style()
    color = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return Style(color=color, width=min(shutil.get_terminal_size().columns, 120))
