"""How a loss that was seen enters the one that is differentiated: its factor there, and what is added to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from .graph import Walk, is_leaf
from .precision import widest

Factor = Tensor | float


def factor_of(seen: Tensor, loss: Tensor) -> Factor | None:
    """By what each entry of `seen` was multiplied on its way, through sums and means, to `loss` (0-d).

    None where the way is another, or where the entries were multiplied by different numbers.
    """
    return _factor(loss.grad_fn, seen.grad_fn, 1, seen.numel())


def _factor(node: Any, seen: Any, size: int, entries: int, depth: int = 24) -> Factor | None:
    """`size`: entries of what the node made, as far as is known; `entries`: of what was seen."""
    if node is seen:
        return 1.0 if size == entries else None  # else it was repeated on its way
    if node is None or depth == 0 or node.name() not in _ON_THE_WAY:
        return None
    before = _size_before(node, size)
    found: list[Factor] = []
    for position, (following, _) in enumerate(node.next_functions):
        factor = _factor(following, seen, before, entries, depth - 1)
        if factor is None:
            continue
        own = _ON_THE_WAY[node.name()](node, position, size / before)
        if own is None:
            return None
        found.append(factor * own)
    if not found or (len(found) > 1 and node.name() not in _SUMS):  # a product with itself is no multiple
        return None
    return sum(found[1:], found[0])


def _size_before(node: Any, size: int) -> int:
    sizes = getattr(node, "_saved_self_sym_sizes", None) if node.name() in _REDUCTIONS else None
    return size if sizes is None else max(1, math.prod(sizes))


def beside(seen: Tensor, loss: Tensor) -> list[Any]:
    """Nodes of what is added to the seen loss on its way to the differentiated one."""
    return _beside(loss.grad_fn, seen.grad_fn)


def _beside(node: Any, seen: Any) -> list[Any]:
    if node is None or node is seen or node.name() not in _ON_THE_WAY:
        return []
    following = [n for n, _ in node.next_functions if n is not None]
    on_the_way = [n for n in following if _leads_to(n, seen)]
    added = [n for n in following if n not in on_the_way] if node.name() in _SUMS else []
    return added + [found for n in on_the_way for found in _beside(n, seen)]


def _leads_to(node: Any, seen: Any, depth: int = 24) -> bool:
    if node is seen:
        return True
    if node is None or depth == 0 or node.name() not in _ON_THE_WAY:
        return False
    return any(_leads_to(following, seen, depth - 1) for following, _ in node.next_functions)


def shares_nodes(added: Sequence[Any], seen: Tensor) -> bool:
    """Whether what is added was computed, in part, from what the seen loss was: from outputs, not from parameters."""
    if not added:
        return False
    inner = {node for node in Walk(seen) if not is_leaf(node)}
    return any(node in inner for start in added for node in Walk(start))


_SUMS = ("AddBackward0", "SubBackward0")
_REDUCTIONS = ("MeanBackward0", "MeanBackward1", "SumBackward0", "SumBackward1")
_ON_THE_WAY: Mapping[str, Callable[[Any, int, float], Factor | None]] = {
    "AddBackward0": lambda node, position, _: node._saved_alpha if position else 1.0,
    "SubBackward0": lambda node, position, _: -node._saved_alpha if position else 1.0,
    "MulBackward0": lambda node, position, _: _precisely(node._saved_self if position else node._saved_other),
    "DivBackward0": lambda node, _, __: None if (by := _precisely(node._saved_other)) is None else 1.0 / by,
    "NegBackward0": lambda *_: -1.0,
    **dict.fromkeys(("MeanBackward0", "MeanBackward1"), lambda _, __, share: share),
    **dict.fromkeys(
        ("SumBackward0", "SumBackward1", "ToCopyBackward0", "ViewBackward0", "SqueezeBackward1", "UnsqueezeBackward0"),
        lambda *_: 1.0,
    ),
}
"""Operations that a loss may pass, and the factor that each applies to the operand at a position.

The last argument: entries of what it made over those of what it was given."""


def _precisely(value: Tensor) -> Tensor | None:
    """A factor in full precision; what was a number of Python's would give way to the default precision."""
    return value.detach().to(widest(value.device), copy=True) if value.dim() == 0 else None
