"""How often each rule was right and wrong on the calibration zoo, as measured: `calibration.json` beside this file.

Programs of the part "tuning" were looked at while the rules were made; those of the part "heldout" were judged blind,
once, and looked at after that; the README has the blind figures.
`tests/zoo/scoreboard.py --write` makes the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .wording import count, percent, plural

FILE = Path(__file__).with_name("calibration.json")
UNMEASURED = "not measured"
PRIOR = 10
"""Runs that the confidence a rule states by itself is worth."""
PARTS: Mapping[str, str] = MappingProxyType(
    {
        "heldout": "on programs of the last test",
        "tuning": "on the programs it was tuned on",
    }
)
"""The parts of the zoo, the more telling first, with what they are."""
SEEN = "tuning"
"""The part that confidences are taken from; the other tells how far they can be trusted."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A rule on one part of the zoo. `healthy`: runs without a fault that it judged; `errors`, `warnings`, `notes`:
    those in which it fired, by its gravest finding. `faulty`: runs with a fault that it is for; `named`: in which it
    said so. `fired`: runs of either kind in which it named a cause; `true`: those in which it was right."""

    healthy: int
    errors: int
    warnings: int
    notes: int
    faulty: int
    named: int
    fired: int = 0
    true: int = 0

    @property
    def alarms(self) -> int:
        """Healthy runs in which it fired."""
        return self.errors + self.warnings + self.notes


def measured(code: str, part: str) -> Measured | None:
    """What was measured for a rule, None if nothing."""
    values = _content().get(part, {}).get(code)
    return Measured(**values) if values else None


def calibrated(code: str, stated: float) -> float:
    """How probable it is that a finding is right, in [0, 1].

    The share of such findings that were right on the programs that were looked at, to which what the rule itself states
    counts as much as `PRIOR` runs: the mean of a beta distribution.
    """
    found = measured(code, SEEN)
    return stated if found is None else round((found.true + PRIOR * stated) / (found.fired + PRIOR), 3)


def sentences(code: str) -> tuple[str, ...]:
    """What was measured for a rule, a sentence for each part of the zoo; that nothing was, if so."""
    return tuple(_sentences(code)) or (f"False alarms: {UNMEASURED}.",)


def _sentences(code: str) -> Iterator[str]:
    for part, where in PARTS.items():
        found = measured(code, part)
        if found is not None and (found.healthy or found.faulty):
            yield f"Measured {where}: {_alarms(found)}{_named(found)}."


def _alarms(found: Measured) -> str:
    if not found.healthy:
        return f"false alarms {UNMEASURED}"
    grades = {"error": found.errors, "warning": found.warnings, "note": found.notes}
    told = ", ".join(plural(number, grade) for grade, number in grades.items() if number)
    most = percent(at_most(found.alarms, found.healthy))
    said = f"{plural(found.alarms, 'alarm')}{f' ({told})' if told else ''} in {plural(found.healthy, 'healthy run')}"
    return f"{said}: at most {most} with {percent(0.95)} confidence"


def _named(found: Measured) -> str:
    return f"; fired in {count(found.named)} of {plural(found.faulty, 'run')} with such a fault" if found.faulty else ""


def at_most(number: int, of: int, confidence: float = 0.95) -> float:
    """The largest rate in [0, 1] that is consistent with the number, one-sided, by Clopper and Pearson.

    It is the rate at which so few are as rare as 1 - confidence.
    """
    if number >= of:
        return 1.0
    low, high = number / of, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _so_few(number, of, middle) > 1 - confidence else (low, middle)
    return high


def _so_few(number: int, of: int, rate: float) -> float:
    """Probability of at most `number` of `of` at a rate."""
    if rate >= 1:
        return 0.0
    logs = (
        math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)
        + (k * math.log(rate) if k else 0.0) + (of - k) * math.log1p(-rate)
        for k in range(number + 1)
    )  # fmt: skip
    return sum(math.exp(value) for value in logs)


@cache
def _content() -> dict[str, dict[str, Any]]:
    content: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return content
