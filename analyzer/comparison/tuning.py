"""Hyperparameters against outcome: a table of what was varied and what it led to, and what to try next."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..wording import listed, number, sentence
from .next_values import Advice, Trial, advise
from .outcomes import Goal, Outcome, ranking
from .settings import HYPERPARAMETERS, OPTIMIZER, Key, is_seed, is_tunable, numeric_settings, settings, words

if TYPE_CHECKING:
    from ..run import Run

MOST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Tuning:
    """`columns`: names of what was varied; `rows`: positions of the runs, the best first, with their values as words.

    `numbers`: for each hyperparameter that is a number, its value in each run, in the order of the runs.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    left_out: int
    advice: tuple[Advice, ...]
    numbers: dict[str, tuple[float | None, ...]]
    note: str


def tuning(runs: Sequence[Run], outcomes: Sequence[Outcome], by: Goal) -> Tuning:
    """What was varied over the runs, what it led to, and what to try."""
    known = [settings(run) for run in runs]
    names = _named([key for key in _varied(known) if is_tunable(key)], known)
    numbers = _numbers(runs, {key: name for key, name in names.items() if not is_seed(key)})
    shown = dict(list(names.items())[:MOST_COLUMNS])
    order = ranking(outcomes, by)
    trials = _trials(groups(runs), numbers, outcomes, by)
    advice = advise(trials)
    return Tuning(
        columns=tuple(shown.values()),
        rows=tuple((i, tuple(words(known[i].get(key)) for key in shown)) for i in order),
        left_out=len(names) - len(shown),
        advice=advice,
        numbers=numbers,
        note=_note(names, numbers, trials),
    )


def groups(runs: Sequence[Run]) -> list[int]:
    """For each run the group of those that were set up alike, seeds aside."""
    seen: dict[tuple[tuple[Key, str], ...], int] = {}
    return [seen.setdefault(_set_up(run), len(seen)) for run in runs]


def _set_up(run: Run) -> tuple[tuple[Key, str], ...]:
    """What makes a run another experiment: neither its seed, nor its length, nor where and how it was recorded."""
    counting = (HYPERPARAMETERS, OPTIMIZER, "Loss", "Model", "Training")
    left_out = (("Training", "steps"), ("Training", "attempts"))
    return tuple(
        (key, words(value))
        for key, value in settings(run).items()
        if key[0] in counting and key not in left_out and not is_seed(key)
    )


def _varied(known: Sequence[dict[Key, object]]) -> list[Key]:
    keys = list(dict.fromkeys(key for each in known for key in each))
    return [key for key in keys if len({words(each.get(key)) for each in known}) > 1]


def _named(keys: Sequence[Key], known: Sequence[dict[Key, object]]) -> dict[Key, str]:
    """A name for each setting; one that says the same as an earlier one in all runs is left out."""
    names: dict[Key, str] = {}
    columns: set[tuple[str, ...]] = set()
    for key in keys:
        column = tuple(words(_as_float(each.get(key))) for each in known)
        if column not in columns:
            columns.add(column)
            names[key] = key[1] if key[1] not in names.values() else f"{key[0].lower()} {key[1]}"
    return names


def _as_float(value: object) -> object:
    """A whole number as a float, so that 1 and 1.0 are the same."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else value


def _numbers(runs: Sequence[Run], names: dict[Key, str]) -> dict[str, tuple[float | None, ...]]:
    """The values of the settings that are numbers, in the order of the runs; those that all runs share are left out."""
    known = [numeric_settings(run) for run in runs]
    found = {name: tuple(each.get(key) for each in known) for key, name in names.items()}
    return {name: values for name, values in found.items() if len({v for v in values if v is not None}) > 1}


def _trials(
    alike: Sequence[int], numbers: dict[str, tuple[float | None, ...]], outcomes: Sequence[Outcome], by: Goal
) -> list[Trial]:
    members: dict[int, list[int]] = {}
    for position, group in enumerate(alike):
        members.setdefault(group, []).append(position)
    return [
        Trial(
            {name: value for name, values in numbers.items() if (value := values[positions[0]]) is not None},
            *_cost([outcomes[i] for i in positions], by),
        )
        for positions in members.values()
    ]


def _cost(outcomes: Sequence[Outcome], by: Goal) -> tuple[float | None, float]:
    """Mean cost of repetitions and its error: by their scatter, or by that of the single one."""
    values = [item.value for item in outcomes]
    finite = [value if by.falls else -value for value in values if value is not None]
    if not finite or len(finite) < len(values):
        return None, math.inf
    if len(finite) == 1:
        return finite[0], outcomes[0].error
    return statistics.fmean(finite), statistics.stdev(finite) / math.sqrt(len(finite))


def _note(names: dict[Key, str], numbers: dict[str, tuple[float | None, ...]], trials: Sequence[Trial]) -> str:
    """What stands in the way of a conclusion; "" if nothing does."""
    if not names:
        return "No hyperparameter differs, as far as it was recorded: name them with Recorder(…, hparams=…)."
    if not numbers:
        return "Nothing that is a number differs, so there is no scale to search."
    if len(trials) < 3:
        return f"Only {len(trials)} settings were tried: too few to tell a trend from chance."
    return ""


def advice_words(item: Advice) -> str:
    """An advice as a sentence: `lr: the best, 0.02, is the smallest value that was tried. Try 0.002 and 0.006.`"""
    best = "" if item.best is None else f" Best so far: {number(item.best)}."
    values = listed([number(value) for value in item.next], 6)
    then = {"finer": f"Try {values} next.", "beyond": f"Try {values} next."}.get(item.kind, "") if item.next else ""
    lead = {
        "too little": "Too little to tell: ",
        "insensitive": "Makes no difference: ",
        "fine enough": "Fine enough: ",
    }.get(item.kind, "")
    why = f"{lead}{item.why}" if lead else sentence(item.why)
    return f"{why}.{best} {then}".strip()
