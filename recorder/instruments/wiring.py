"""Wiring: which leaf tensors the loss reaches, the model registers, and an optimizer holds.

Gaps between these sets are detached, unregistered, forgotten or stale parameters. No curve shows them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..graph import NODE_LIMIT, Walk, is_leaf
from ..tensors import Tensors
from .base import Instrument

if TYPE_CHECKING:
    from ..context import Context
    from ..step import Step

FIRST_STEPS = 3
"""Steps whose graph is walked, at the start and after a change. Later only tensors not reached yet are followed."""


class Wiring(Instrument):
    """Unites what the losses of the first steps reach, so that parameters used on some steps only count as reached.

    Two witnesses: the autograd graph leads to the tensor, or a gradient appeared during a backward pass (compiled and
    checkpointed models hide leaves from the graph). It tells anew when the sets changed: a parameter was reached for
    the first time, groups of an optimizer were added or replaced, parameters frozen or thawed.
    """

    name = "wiring"
    columns = ()

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._registered: dict[str, Tensor] = {}
        self._held: dict[int, Tensor] = {}
        self._unregistered: list[weakref.ref[Tensor]] = []
        self._passing: dict[int, weakref.ref[Tensor]] = {}
        self._reached: set[int] = set()
        self._gradients: dict[int, object] = {}
        self._signature: object = None
        self._walks_left = FIRST_STEPS
        self._told: list[dict[str, Any]] = []

    def begin(self, step: Step) -> None:
        """Start over when the tensors of the model or of an optimizer are not those of the last probe."""
        named = Tensors.of(self.context.model, self.context.loss_fn)
        held = [tensor for group in self.context.groups() for tensor in group["params"]]
        signature = _signature((*named.parameters, *held))
        if signature != self._signature:
            self._signature, self._walks_left = signature, FIRST_STEPS
            self._registered = dict(zip(named.names, named.parameters, strict=True))
            self._held = {id(tensor): tensor for tensor in held}
            self._reached.clear()

    def before_backward(self, step: Step) -> None:
        """Walk the graph of the step's first loss."""
        if step.loss_graph is None:
            return
        if self._walks_left:
            self._walks_left -= 1
            found, complete = leaves(step.loss_graph)
            self._note(found)
            if not complete:
                reason = f"unregistered tensors behind {NODE_LIMIT} nodes are not looked for"
                self.context.explain(("events.wiring",), reason)
        if not step.loss_graph.requires_grad:
            self._tell()  # the backward pass is about to raise
        self._gradients = gradient_states(self._missing())

    def after_backward(self, step: Step) -> None:
        """Add the tensors whose gradient this backward pass touched."""
        states = gradient_states(self._missing())
        self._reached |= {
            key for key, state in states.items() if state is not None and state != self._gradients.get(key)
        }
        self._gradients = states
        self._tell()

    def _missing(self) -> list[Tensor]:
        tensors = {id(tensor): tensor for tensor in (*self._registered.values(), *self._held.values())}
        return [tensor for key, tensor in tensors.items() if key not in self._reached and tensor.is_leaf]

    def _note(self, found: Iterable[Tensor]) -> None:
        known = {id(tensor) for tensor in self._registered.values()} | self._held.keys()
        for leaf in found:
            if id(leaf) in known or self._stays(leaf):
                self._reached.add(id(leaf))

    def _stays(self, leaf: Tensor) -> bool:
        """Whether an unregistered leaf is a weight: a parameter, or met before (an input is a new tensor each time)."""
        before = self._passing.get(id(leaf))
        if not isinstance(leaf, nn.Parameter) and (before is None or before() is not leaf):
            self._passing[id(leaf)] = weakref.ref(leaf)
            return False
        self._list(leaf)
        return True

    def _list(self, tensor: Tensor) -> None:
        if not any(known() is tensor for known in self._unregistered):
            self._unregistered.append(weakref.ref(tensor))

    def _tell(self) -> None:
        """Emit the event if it differs from the last."""
        registered = {id(tensor) for tensor in self._registered.values()}
        for key, tensor in self._held.items():
            if key not in registered:
                self._list(tensor)
        rows = [self._row(name, tensor, registered=True) for name, tensor in self._registered.items()]
        for number, known in enumerate(self._unregistered):
            left = known()
            if left is not None and id(left) not in registered:
                rows.append(self._row(f"unregistered #{number} {_shape(left)}", left, registered=False))
        if rows != self._told:
            self._told = rows
            self.context.event("wiring", _sentence(rows), tensors=rows)

    def _row(self, name: str, tensor: Tensor, *, registered: bool) -> dict[str, Any]:
        shape = _shape(tensor)
        return {
            "name": name,
            "registered": registered,
            "reached": id(tensor) in self._reached,
            "held": id(tensor) in self._held,
            "requires_grad": tensor.requires_grad,
            "parameter": isinstance(tensor, nn.Parameter),
            "shape": list(shape),
            "numel": 0 if is_lazy(tensor) else tensor.numel(),
        }


def leaves(loss: Tensor) -> tuple[list[Tensor], bool]:
    """The leaf tensors that the autograd graph of `loss` leads to, each once, nearest first; and whether these are all.

    Stops at NODE_LIMIT inner nodes.
    """
    if loss.grad_fn is None:
        return ([loss] if loss.requires_grad else []), True
    walk = Walk(loss)
    found = [node.variable for node in walk if is_leaf(node)]
    return found, walk.complete


def gradient_states(tensors: Iterable[Tensor]) -> dict[int, object]:
    """By the `id` of each tensor, what changes when a backward pass adds to its gradient; None without a gradient."""
    return {id(t): None if t.grad is None else (id(t.grad), t.grad._version) for t in tensors}


def _signature(tensors: Iterable[Tensor]) -> object:
    return tuple((id(tensor), tensor.requires_grad) for tensor in tensors)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Shape of a tensor; empty for a lazy parameter that no forward pass has shaped yet."""
    return () if is_lazy(tensor) else tuple(tensor.shape)


def _sentence(rows: list[dict[str, Any]]) -> str:
    counts = {key: sum(row[key] for row in rows) for key in ("reached", "registered", "held")}
    return (
        f"Of {len(rows)} leaf tensors the loss reaches {counts['reached']}, the model registers {counts['registered']} "
        f"and the optimizers hold {counts['held']}"
    )
