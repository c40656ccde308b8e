"""How a loss that was seen enters the one that is differentiated: its factor there, and what is added to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from .graph import Walk, is_leaf
from .precision import widest

Factor = Tensor | float
DEPTH = 24
"""Operations on the way that are looked at."""


def factor_of(seen: Tensor, loss: Tensor) -> Factor | None:
    """By what each entry of `seen` was multiplied on its way, through sums and means, to `loss` (0-d).

    None where the way is another, or where the entries were multiplied by different numbers.
    """
    return _Ways(seen).factor(loss.grad_fn, 1)


def beside(seen: Tensor, loss: Tensor) -> list[Any]:
    """Nodes of what is added to the seen loss on its way to the differentiated one."""
    return _Ways(seen).beside(loss.grad_fn)


class _Ways:
    """The ways from a loss to what was seen. Sums of sums lead there on many: each node is looked at once."""

    def __init__(self, seen: Tensor) -> None:
        self._seen, self._entries = seen.grad_fn, seen.numel()
        self._factors: dict[tuple[Any, int], Factor | None] = {}
        self._lead: dict[Any, bool] = {}
        self._visited: set[Any] = set()

    def factor(self, node: Any, size: int, depth: int = DEPTH) -> Factor | None:
        """`size`: entries of what the node made, as far as is known."""
        if node is self._seen:
            return 1.0 if size == self._entries else None  # else it was repeated on its way
        if not _passes(node) or depth == 0:
            return None
        if (node, size) not in self._factors:
            self._factors[node, size] = self._through(node, size, depth)
        return self._factors[node, size]

    def _through(self, node: Any, size: int, depth: int) -> Factor | None:
        before = _size_before(node, size)
        found: list[Factor] = []
        for position, (following, _) in enumerate(node.next_functions):
            factor = self.factor(following, before, depth - 1)
            if factor is None:
                continue
            own = _ON_THE_WAY[node.name()](node, position, size / before)
            if own is None:
                return None
            found.append(factor * own)
        if not found or (len(found) > 1 and node.name() not in _SUMS):  # a product with itself is no multiple
            return None
        return sum(found[1:], found[0])

    def beside(self, node: Any) -> list[Any]:
        """Nodes that are added from a node on."""
        if node is self._seen or node in self._visited or not _passes(node):
            return []
        self._visited.add(node)
        following = [n for n, _ in node.next_functions if n is not None]
        on_the_way = [n for n in following if self._leads(n)]
        added = [n for n in following if n not in on_the_way] if node.name() in _SUMS else []
        return added + [found for n in on_the_way for found in self.beside(n)]

    def _leads(self, node: Any, depth: int = DEPTH) -> bool:
        if node is self._seen:
            return True
        if not _passes(node) or depth == 0:
            return False
        if node not in self._lead:
            self._lead[node] = any(self._leads(following, depth - 1) for following, _ in node.next_functions)
        return self._lead[node]


def _passes(node: Any) -> bool:
    return node is not None and node.name() in _ON_THE_WAY


def _size_before(node: Any, size: int) -> int:
    sizes = getattr(node, "_saved_self_sym_sizes", None) if node.name() in _REDUCTIONS else None
    return size if sizes is None else max(1, math.prod(sizes))


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
