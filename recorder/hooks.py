"""Hooks on modules of the user's, which neither a copy nor a pickle of the module takes along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


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


def watched() -> bool:
    """Whether a forward pass is one that a hook may look at: differentiated, and not being traced.

    A compiled copy of a module that we know only uncompiled runs through the module's hooks while it is traced. What
    they do would become part of the compiled code, and have it compiled anew whenever that changes.
    """
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()
