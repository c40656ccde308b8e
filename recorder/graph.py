"""The autograd graph behind a loss, walked from the loss towards its leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from torch import Tensor

NODE_LIMIT = 5_000
"""Inner nodes of a graph that are looked at.

Looking at a node gives it a Python object that lives as long as the node. torch frees a chain of plain nodes in a loop,
but one of such nodes by recursion, about 200 bytes of stack a node: a few ten thousand of them overflow it.
"""


class Walk:
    """Iterates over the nodes behind a loss, each once, nearest first; `complete` tells afterwards whether all were.

    `start`: the loss, or a node of its graph.
    """

    def __init__(self, start: Any) -> None:
        self._first = start.grad_fn if isinstance(start, Tensor) else start
        self.complete = True

    def __iter__(self) -> Iterator[Any]:
        queue: deque[Any] = deque([] if self._first is None else [self._first])
        seen, budget = set(queue), NODE_LIMIT
        while queue:
            node = queue.popleft()
            yield node
            if is_leaf(node):
                continue
            budget -= 1
            following = [n for n, _ in node.next_functions if n is not None and n not in seen] if budget >= 0 else []
            seen.update(following)
            queue.extend(dict.fromkeys(following))
        self.complete = budget >= 0


def is_leaf(node: Any) -> bool:
    """Whether a node accumulates the gradient of a leaf tensor, `node.variable`."""
    return type(node).__name__ == "AccumulateGrad"


def differentiable_once(loss: Tensor) -> str:
    """Name of a function behind the loss that says it can be differentiated only once; empty if none is found.

    Autograd would not object: asked for gradients of gradients it leaves the part behind such a function out.
    """
    for node in Walk(loss):
        function = getattr(type(node), "_forward_cls", None)
        backward = getattr(function, "backward", None)
        if (
            function is not None
            and backward is not None
            and "once_differentiable" in getattr(backward, "__code__", _NONE).co_qualname
        ):
            return str(function.__name__)
    return ""


_NONE = (lambda: None).__code__
