"""What is derived from a run and needed in many places is computed once: the answer lives as long as the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from .run import Run

P = ParamSpec("P")
T = TypeVar("T")

_KEPT: WeakKeyDictionary[Run, dict[Any, Any]] = WeakKeyDictionary()


def per_run(function: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """Makes a pure function of a run remember its answers, which nobody may change.

    What else it takes must be hashable. What it raises is not kept. Meant for answers much smaller than the tables.
    """

    @wraps(function)
    def remembering(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
        kept, key = _KEPT.setdefault(run, {}), (function, args, tuple(sorted(kwargs.items())))
        if key not in kept:
            kept[key] = function(run, *args, **kwargs)
        answer: T = kept[key]
        return answer

    return remembering
