"""A hook on a module of the user's, which neither a copy nor a pickle of the module takes along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """Calls `function` as a module's hook. Copied or pickled with its module, it becomes a hook that does nothing."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> None:
        """What the module calls."""
        self._function(*args)

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _inert, ()


def _inert() -> Callable[..., None]:
    return nothing


def nothing(*_: Any) -> None:
    """What is left of a hook in a copy of its module."""
