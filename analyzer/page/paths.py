"""The coordinates of an SVG with one decimal, and paths in relative steps, which are shorter than absolute ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
_COMMAND = re.compile(r"([A-DF-Za-df-z])([^A-DF-Za-df-z]*)")
"""A command with its numbers; an `e` belongs to a number."""

Point = tuple[int, int]
"""A place or a distance, in tenths of a pixel."""


def rounded(text: str) -> str:
    """The text with its numbers rounded to one decimal."""
    return _NUMBER.sub(lambda match: _written(_tenths(match[0])), text)


def shorter(path: str) -> str:
    """The same path to a tenth of a pixel: lines as relative steps, straight runs in one."""
    written, last = "", ""
    for piece in _pieces(path):
        if piece[0] == last == "l":  # the command is said once
            piece = piece[1:] if piece[1] == "-" else f" {piece[1:]}"
        else:
            last = piece[0]
        written += piece
    return written


def _pieces(path: str) -> Iterator[str]:
    """The commands of the path, lines relative to where the last one ended."""
    here: Point | None = None
    pending: Point = (0, 0)
    for command, numbers in _COMMAND.findall(path):
        values = [_tenths(number) for number in _NUMBER.findall(numbers)]
        if command == "L" and here is not None and len(values) == 2:
            step = (values[0] - here[0], values[1] - here[1])
            if not _straight(pending, step):
                yield from _line(pending)
                pending = (0, 0)
            pending = (pending[0] + step[0], pending[1] + step[1])
        else:
            yield from _line(pending)
            pending = (0, 0)
            yield command + _pair(values) if len(values) == 2 else command + rounded(numbers.strip())
        here = (values[0], values[1]) if command in "ML" and len(values) == 2 else None
    yield from _line(pending)


def _straight(one: Point, other: Point) -> bool:
    """Whether one step goes on in the direction of the other, along an axis."""
    return any(
        one[across] == other[across] == 0 and one[along] * other[along] >= 0 for across, along in ((0, 1), (1, 0))
    )


def _line(step: Point) -> Iterator[str]:
    if step != (0, 0):
        yield "l" + _pair(step)


def _pair(values: Iterable[int]) -> str:
    """Two numbers: a comma between them, or the sign of the second."""
    first, second = (_written(value) for value in values)
    return f"{first}{'' if second.startswith('-') else ','}{second}"


def _tenths(number: str) -> int:
    return round(10 * float(number))


def _written(tenths: int) -> str:
    """`-1.5`, `3`, `.2`: what SVG takes for a number."""
    sign, (whole, rest) = "-" if tenths < 0 else "", divmod(abs(tenths), 10)
    return f"{sign}{whole if whole or not rest else ''}{f'.{rest}' if rest else ''}"
