"""Coarse to fine: which value of a hyperparameter to try next, by what the values tried so far led to.

On a logarithmic scale, the neighbourhood of the best value is divided more finely; where the best lies at the edge of
what was tried, the search goes beyond it; where the outcomes do not differ by more than their errors, or too much was
varied at once, it says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ..wording import listed, number

FINE = 1.3
"""Factor between neighbours below which a finer search is seldom worth its cost."""

COARSE = 6.0
"""Factor between neighbours above which two values are put between them instead of one."""

Kind = Literal["finer", "beyond", "fine enough", "insensitive", "too little"]

_BELOW_ONE = re.compile(r"momentum|beta|\bema|gamma|discount", re.IGNORECASE)
_SHARE = re.compile(r"drop|prob|smooth|share|ratio|\bp\b", re.IGNORECASE)
_RATE = re.compile(r"(^|[^a-z])(lr|learning[_ -]?rate|rate)([^a-z]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs with the same settings, seeds aside: the settings that are numbers, the mean outcome and its error.

    `cost`: the outcome so that less is better; None where nothing finite was reached.
    """

    values: dict[str, float]
    cost: float | None
    error: float = math.inf


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try next for a hyperparameter. `tried` are its values, `best` the one that did best."""

    name: str
    kind: Kind
    tried: tuple[float, ...]
    best: float | None
    next: tuple[float, ...]
    why: str


def advise(trials: Sequence[Trial]) -> tuple[Advice, ...]:
    """An advice for each hyperparameter that was varied; the learning rate first, for it matters most."""
    names = varied(trials)
    return tuple(_advice(name, names, trials) for name in sorted(names, key=lambda name: not is_rate(name)))


def varied(trials: Sequence[Trial]) -> list[str]:
    """The numbers of which at least two values were tried."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.values))
    return [name for name in names if len(_tried(name, trials)) > 1]


def is_rate(name: str) -> bool:
    """Whether it is a learning rate, by its name."""
    return _RATE.search(name) is not None


def _tried(name: str, trials: Iterable[Trial]) -> list[float]:
    return sorted({trial.values[name] for trial in trials if math.isfinite(trial.values.get(name, math.nan))})


def _advice(name: str, names: Sequence[str], trials: Sequence[Trial]) -> Advice:
    mine = [trial for trial in trials if name in trial.values]
    tried = tuple(_tried(name, mine))
    profile = {value: _best(trial for trial in mine if trial.values[name] == value) for value in tried}
    finished = {value: trial for value, trial in profile.items() if trial.cost is not None}
    if not finished:
        return Advice(name, "too little", tried, None, (), "no run reached a finite outcome")
    best = min(finished, key=lambda value: finished[value].cost or 0.0)
    if (obstacle := _confounded(name, names, mine)) is not None:
        return Advice(name, "too little", tried, best, (), obstacle)
    if len(finished) > 1 and len(finished) == len(tried) and _alike(list(finished.values())):
        return Advice(
            name,
            "insensitive",
            tried,
            best,
            (),
            "the outcomes differ by no more than their errors: vary something else",
        )
    scale = _Scale.of(name, tried)
    level = [
        value for value in tried if value == best or (value in finished and _alike([finished[best], finished[value]]))
    ]
    if len(level) > 1:
        return _level(name, tried, best, level, scale)
    return _beyond(name, tried, best, scale) if best in (tried[0], tried[-1]) else _finer(name, tried, best, scale)


def _best(trials: Iterable[Trial]) -> Trial:
    return min(trials, key=lambda trial: math.inf if trial.cost is None else trial.cost)


def _confounded(name: str, names: Sequence[str], trials: Sequence[Trial]) -> str | None:
    """Why the effect of one hyperparameter cannot be told from that of others; None if it can.

    It can where two trials differ in nothing else, or where there are many trials for what was varied.
    """
    others = [other for other in names if other != name]
    if not others or len(trials) >= 4 * len(names) + 4:
        return None
    seen: dict[tuple[float | None, ...], set[float]] = {}
    for trial in trials:
        seen.setdefault(tuple(trial.values.get(other) for other in others), set()).add(trial.values[name])
    if any(len(values) > 1 for values in seen.values()):
        return None
    return f"it never changed alone: {len(trials)} settings vary {len(names)} numbers at once"


def _alike(trials: Sequence[Trial]) -> bool:
    """Whether the best is no better than the worst by more than two standard errors of their difference."""
    ranked = sorted(trials, key=lambda trial: trial.cost or 0.0)
    best, worst = ranked[0], ranked[-1]
    gap = (worst.cost or 0.0) - (best.cost or 0.0)
    known = math.isfinite(best.error) and math.isfinite(worst.error)
    return gap == 0 or (known and gap <= 2 * math.hypot(best.error, worst.error))


@dataclass(frozen=True, slots=True)
class _Scale:
    """On which values are evenly spaced: their logarithm, that of their distance from 1, or themselves."""

    kind: Literal["log", "below one", "linear"]
    whole: bool

    @staticmethod
    def of(name: str, tried: Sequence[float]) -> _Scale:
        whole = all(float(value).is_integer() for value in tried) and max(tried) > 1 and not is_rate(name)
        within = all(0 <= value < 1 for value in tried)
        if within and _BELOW_ONE.search(name):
            return _Scale("below one", False)
        if within and _SHARE.search(name):
            return _Scale("linear", False)
        return _Scale("log" if min(tried) >= 0 else "linear", whole)

    def at(self, value: float) -> float:
        if self.kind == "log":
            return math.log(value)
        return -math.log(1 - value) if self.kind == "below one" else value

    def back(self, place: float) -> float:
        if self.kind == "log":
            return self._rounded(math.exp(place))
        if self.kind == "below one":
            return 1 - _two_digits(math.exp(-place))
        return self._rounded(place)

    def _rounded(self, value: float) -> float:
        return float(max(1, round(value))) if self.whole else _two_digits(value)

    def factor(self, low: float, high: float) -> float:
        """How far two values are apart; on a linear scale their distance in tenths, as a factor of the same weight."""
        apart = abs(self.at(high) - self.at(low))
        return math.exp(apart if self.kind != "linear" else 5 * apart / max(abs(low), abs(high), 1e-300))


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def _between(low: float, high: float, scale: _Scale) -> list[float]:
    """One value between two, or two where they are far apart; next to zero, a tenth and a third of the other."""
    if scale.kind == "log" and low == 0:
        return [scale.back(math.log(high / 10)), scale.back(math.log(high / 3))]
    parts = 3 if scale.factor(low, high) > COARSE else 2
    places = [scale.at(low) + (scale.at(high) - scale.at(low)) * i / parts for i in range(1, parts)]
    return [value for value in (scale.back(place) for place in places) if low < value < high]


def _finer(name: str, tried: Sequence[float], best: float, scale: _Scale) -> Advice:
    position = tried.index(best)
    low, high = tried[position - 1], tried[position + 1]
    gaps = [(low, best), (best, high)]
    open_gaps = [gap for gap in gaps if gap[0] == 0 or best == 0 or scale.factor(*gap) > FINE]
    values = tuple(value for gap in open_gaps for value in _between(*gap, scale))
    if not values:
        return Advice(name, "fine enough", tuple(tried), best, (), "its neighbours were tried, and are near")
    return Advice(name, "finer", tuple(tried), best, values, "the best lies between values that were tried")


def _level(name: str, tried: Sequence[float], best: float, level: Sequence[float], scale: _Scale) -> Advice:
    """Several values do as well as the best: the top lies between them, or beyond where they reach an edge."""
    gaps = [gap for gap in pairwise(level) if 0 in gap or scale.factor(*gap) > FINE]
    values = {value for gap in gaps for value in _between(*gap, scale)}
    if best in (tried[0], tried[-1]):
        values |= set(_beyond(name, tried, best, scale).next[:: -1 if best == tried[0] else 1][:1])
    why = f"{listed([number(value) for value in level], 4)} do equally well, within errors"
    kind: Kind = "finer" if values else "fine enough"
    return Advice(name, kind, tuple(tried), best, tuple(sorted(values)), why)


def _beyond(name: str, tried: Sequence[float], best: float, scale: _Scale) -> Advice:
    """Further values on the open side of the best, spaced as the last two are, by a factor of ten at most."""
    upwards = best == tried[-1]
    neighbour = tried[-2] if upwards else tried[1]
    inner = _between(min(neighbour, best), max(neighbour, best), scale)[-1 if upwards else 0 :][:1]
    why = f"the best is the {'largest' if upwards else 'smallest'} value that was tried"
    if best == 0:
        return Advice(name, "finer", tuple(tried), best, tuple(_between(0, neighbour, scale)), "none at all does best")
    stride = abs(scale.at(best) - scale.at(neighbour)) if neighbour or scale.kind != "log" else math.log(10)
    if scale.kind != "linear":
        stride = min(stride, math.log(10))
    sign = 1 if upwards else -1
    outer = [scale.back(scale.at(best) + sign * stride * share) for share in (0.5, 1.0)]
    outer = [value for value in outer if _allowed(value, best, upwards, scale, name)]
    few = "; two values tell a direction and no more" if len(tried) == 2 else ""
    values = tuple(sorted({*outer, *(inner if len(tried) == 2 else [])}))
    return Advice(name, "beyond", tuple(tried), best, values, why + few)


def _allowed(value: float, best: float, upwards: bool, scale: _Scale, name: str) -> bool:
    if scale.kind == "linear" and _SHARE.search(name) and not 0 <= value <= 0.9:
        return False
    if scale.kind == "below one" and not 0 <= value < 1:
        return False
    return value > best if upwards else value < best
