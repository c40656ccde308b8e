"""Which instrument separates several runs first, and which never do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..wording import capitalized, count, listed, number, step_range
from .measures import SET, Measure, Series
from .separation import Parting, parting

ALL_PAIRS = 4
"""Runs up to which each is compared with each; more are compared with the first of them only."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Separation:
    """How a measure relates the runs: its earliest parting, and of which two (positions among the runs).

    `repeated`: repetitions of the same settings part in it as early and much alike, so it says nothing of the settings.
    """

    measure: Measure
    parting: Parting
    pair: Pair
    repeated: bool = False

    @property
    def apart(self) -> bool:
        """Whether it separates any two of the runs."""
        return self.parting.outcome == "apart"


def separations(
    measures: Sequence[Measure], series: Mapping[tuple[str, int], Series], groups: Sequence[int]
) -> tuple[Separation, ...]:
    """A separation for each measure that two runs recorded, the earliest first.

    `series` by a measure's name and a run's position. `groups`: for each run the group of those with its settings,
    seeds aside. Runs of one group are repetitions; where there are several groups, those are what is to be told apart.
    """
    found = (_separation(measure, series, groups) for measure in measures)
    return tuple(sorted((item for item in found if item), key=_order))


def _separation(measure: Measure, series: Mapping[tuple[str, int], Series], groups: Sequence[int]) -> Separation | None:
    across, within = _pairs(groups)
    found = [(pair, _parted(measure, series, pair)) for pair in across]
    found = [(pair, item) for pair, item in found if item.steps]
    if not found:
        return None
    pair, best = min(found, key=lambda item: _rank(item[1]))
    repeats = [_parted(measure, series, repeated) for repeated in within] if best.step is not None else []
    return Separation(measure, best, pair, any(_as_telling(item, best, measure) for item in repeats))


def _as_telling(repeat: Parting, best: Parting, measure: Measure) -> bool:
    """Whether repetitions part as early as other settings do, and by a third as much."""
    if repeat.step is None or best.until is None or repeat.step > best.until:
        return False
    return 3 * _distance(repeat, measure) > _distance(best, measure)


def _distance(item: Parting, measure: Measure) -> float:
    """How far apart the two are, as the measure is compared."""
    one, other = item.one or 0.0, item.other or 0.0
    if not math.isfinite(one) or not math.isfinite(other):
        return math.inf
    return abs(math.log(one / other)) if measure.ratios and one > 0 and other > 0 else abs(one - other)


def _parted(measure: Measure, series: Mapping[tuple[str, int], Series], pair: Pair) -> Parting:
    one, other = (series[measure.name, position] for position in pair)
    return parting(one, other, ratios=measure.ratios)


def _pairs(groups: Sequence[int]) -> tuple[list[Pair], list[Pair]]:
    """Pairs of runs to be told apart, and pairs of repetitions; if all are repetitions, those are told apart."""
    every = list(combinations(range(len(groups)), 2))
    within = [pair for pair in every if groups[pair[0]] == groups[pair[1]]]
    across = [pair for pair in every if pair not in within]
    if not across:
        return within if len(groups) <= ALL_PAIRS else within[: len(groups) - 1], []
    if len(groups) > ALL_PAIRS:
        across = [pair for pair in across if 0 in pair] or across[: len(groups)]
    return across, within[: len(groups)]


_RANKS = {"apart": 0, "together": 1, "equal": 2, "too few": 3}


def _rank(item: Parting) -> tuple[int, int, float]:
    return _RANKS[item.outcome], item.step or 0, -item.size


def _order(item: Separation) -> tuple[bool, bool, tuple[int, int, float]]:
    return item.repeated, item.measure.name == SET and item.apart, _rank(item.parting)


def signs(found: Sequence[Separation]) -> list[Separation]:
    """The measures that separate the runs, the earliest first; without what is set, and what repetitions do as well."""
    return [item for item in found if item.apart and not item.repeated and item.measure.name != SET]


def first_words(found: Sequence[Separation], names: Sequence[str]) -> Iterator[str]:
    """Sentences on what separates the runs first, and on a loss that does not although the steps differ."""
    apart = signs(found)
    if not apart:
        yield _nothing(found)
        return
    first = apart[0]
    begun = [item for item in apart[1:] if (item.parting.step or 0) <= (first.parting.until or 0)]
    also = f", at once with {listed([item.measure.name for item in begun], 4)}" if begun else ""
    subject = capitalized(first.measure.name)
    yield f"{subject} separates {_these(first, names)} first, {when(first.parting)}{also}: {between(first, names)}."
    loss = next((item for item in found if item.measure.name == "loss"), None)
    alpha = next((item for item in apart if item.measure.name == "alpha"), None)
    if loss and alpha and loss.parting.outcome == "together":
        yield (
            f"The losses never part by more than their noise, but alpha does, {when(alpha.parting)}: the same curve is "
            "reached by steps of another kind."
        )


def _nothing(found: Sequence[Separation]) -> str:
    told = [item for item in found if item.parting.outcome in ("equal", "together")]
    if not told:
        return "The runs share too few steps to tell where they part."
    if all(item.parting.outcome == "equal" for item in told):
        return f"All {count(len(told))} instruments that could be compared read the same, to the last digit."
    return f"None of the {count(len(told))} instruments that could be compared separates the runs beyond noise."


def when(item: Parting) -> str:
    """`in steps 20 to 39`: the block in which two series part."""
    return f"in {step_range(item.step, item.until)}" if item.step != item.until else f"at {step_range(item.step, None)}"


def between(item: Separation, names: Sequence[str]) -> str:
    """`0.41 in plain, 1.28 in tiny-batches`."""
    one, other = item.pair
    return f"{number(item.parting.one, 3)} in {names[one]}, {number(item.parting.other, 3)} in {names[other]}"


def _these(item: Separation, names: Sequence[str]) -> str:
    return "the runs" if len(names) == 2 else f"{names[item.pair[0]]} and {names[item.pair[1]]}"
