"""The programs of the zoo: `PROGRAM` of each file in the directory of a part.

`tuning`: thresholds are tuned on them. `heldout`: written for a test by authors who had seen no rule, and judged blind
once. What has been looked at since joins the tuning part, and the next test needs programs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from zoo.program import Program


def programs(part: str) -> tuple[Program, ...]:
    """Those of a part, by name of file."""
    files = sorted((Path(__file__).parent / part).glob("*.py"))
    return tuple(import_module(f"zoo.{part}.{file.stem}").PROGRAM for file in files)


TUNING = programs("tuning")
HELDOUT = programs("heldout")
PARTS: Mapping[str, tuple[Program, ...]] = {"tuning": TUNING, "heldout": HELDOUT}
