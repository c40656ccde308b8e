"""Drive one instrument through the moments of a step, without a recorder around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from support.nosync import no_sync
from torch import Tensor, nn

from recorder.buffer import Buffer
from recorder.context import Context
from recorder.deferred import Deferred
from recorder.forward import is_compiled
from recorder.instruments.base import Instrument
from recorder.step import MicroBatch, Step
from recorder.stepping import Stepping
from recorder.tensors import Tensors

CPU = torch.device("cpu")


class Rig:
    """A context and a buffer, and what an instrument left in them."""

    def __init__(self, model: nn.Module, *optimizers: torch.optim.Optimizer, loss_fn: object | None = None) -> None:
        tensors = Tensors.of(model, loss_fn)
        hooks = not is_compiled(model)
        self.context = Context(model, optimizers, loss_fn, tensors, Deferred(CPU), probe_memory=1 << 30, hooks=hooks)
        self.buffer = Buffer(CPU, len(tensors))
        self.index = 0

    def step(self, instrument: Instrument, *micro_batches: MicroBatch | Callable[[], MicroBatch]) -> Step:
        """A probed step: the forward (where it is a call) and backward pass of each micro-batch, then the update."""
        step = Step(cast(Stepping, None), self.index, True, self.buffer.row())
        self.index += 1
        with no_sync():
            instrument.begin(step)
        for number, given in enumerate(micro_batches):
            micro = given() if callable(given) else given
            step.micro_batches.append(micro)
            step.loss_graph = micro.loss
            with no_sync():
                if number == 0:
                    instrument.before_backward(step)
            step.loss_graph = None
            if micro.loss.requires_grad:
                micro.loss.backward()
            with no_sync():
                instrument.after_backward(step)
        with no_sync():
            instrument.before_update(step)
            instrument.after_update(step)
            instrument.end(step)
        return step

    def columns(self) -> dict[str, Any]:
        """The columns of `steps` that the last step set, as host numbers. Frees the rows."""
        block = self.buffer.drain()
        row = block.rows[-1]
        found: dict[str, Any] = {name: block.scalars(name)[-1] for name in row.device}
        found |= {name: block.vectors[name][len(block.rows) - 1].tolist() for name in row.vectors}
        return found | row.host

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The details of the events of a kind since the last call, in order."""
        drained = self.context.deferred.drain()
        rows = [] if drained is None else drained.resolved()
        return [json.loads(row["detail"]) for table, row in rows if table == "events" and row["kind"] == kind]


def micro(loss: Tensor | None = None, **fields: Any) -> MicroBatch:
    """A micro-batch; the loss matters to the wiring only."""
    return MicroBatch(torch.zeros(()) if loss is None else loss, **fields)


def hooks(model: nn.Module) -> list[int]:
    """How many hooks of each kind each module has."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
    return [len(getattr(module, kind)) for module in model.modules() for kind in kinds]


@contextmanager
def left_as_found(model: nn.Module) -> Iterator[None]:
    """The attributes, hooks and random numbers after are those before."""
    before = [dict(vars(module)) for module in model.modules()], hooks(model), torch.get_rng_state()
    yield
    assert [dict(vars(module)) for module in model.modules()] == before[0]
    assert hooks(model) == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])
