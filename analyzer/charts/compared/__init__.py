"""Charts of several runs: curves over one another, outcomes against settings, and alpha run by run."""

from __future__ import annotations

from dataclasses import dataclass

from ..theme import SERIES

MOST = len(SERIES)
"""Runs in a chart; more would share colours."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The runs to draw, by their positions and names; `colors` of an excerpt of the runs would not match the page."""

    positions: tuple[int, ...]
    names: tuple[str, ...]
