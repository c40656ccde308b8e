"""Tensors in arguments and outputs of any nesting. A tensor, or a tuple of tensors, is not searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map


def leaves(value: Any) -> list[Any]:
    """What is in a value, containers of any nesting opened, in order."""
    if isinstance(value, Tensor):
        return [value]
    return list(value) if _is_plain(value) else tree_flatten(value)[0]


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors in the arguments of a call."""
    found = leaves(args) + leaves(kwargs) if kwargs else leaves(args)
    return [item for item in found if isinstance(item, Tensor)]


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The value with a function applied to each of its leaves."""
    if _is_plain(value):
        return tuple(map(function, value))
    return tree_map(function, value)


def _is_plain(value: Any) -> bool:
    return type(value) is tuple and all(isinstance(item, Tensor) for item in value)


def holds(kind: type, *values: Any) -> bool:
    """Whether an object of a kind, itself a container, is somewhere in the values."""
    return any(not isinstance(v, Tensor) and not _is_plain(v) and _search(kind, v) for v in values)


def _search(kind: type, value: Any) -> bool:
    found = tree_flatten(value, is_leaf=lambda item: isinstance(item, kind))[0]
    return any(isinstance(item, kind) for item in found)
