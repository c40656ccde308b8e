"""Life of a step: begun, differentiated, updated, closed. Errors of the recorder's own never leave this module."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from .context import Context
from .forward import ForwardWatch, OrderWatch
from .moments import Moments
from .outlet import Outlet
from .schedule import Schedule
from .step import MicroBatch, Step

logger = logging.getLogger("glideslope")

MISSED = 3
"""Steps without a backward pass, and none with one, after which the user is told."""
UNCLEAR = "several backward passes at a step without a probe: whether they share a forward pass is not seen"
NOT_CALLED = (
    "nothing is recorded: call step.backward(loss) in place of loss.backward() inside `with recorder.step() as step`"
)

Backward = Callable[[Tensor], object]


class Stepping:
    """Runs the steps of one attempt. At most one step is open at a time."""

    def __init__(self, context: Context, moments: Moments, schedule: Schedule, outlet: Outlet) -> None:
        self._context, self._moments, self._schedule, self._outlet = context, moments, schedule, outlet
        self._watch = ForwardWatch(context)
        self.order = OrderWatch()
        self.recorded = 0
        """Steps recorded."""
        self.last: int | None = None
        """The last step that was recorded."""
        self._open: Step | None = None
        self._watched: Step | None = None
        """The step whose forward passes are watched."""
        self._updating = 0
        """Steps of optimizers that run: one may call another, or that of its base class, which has hooks as well."""
        self._updated: set[int] = set()
        """Positions of the optimizers that made their step."""
        self._missed = 0
        """Steps without a backward pass."""
        self._began = 0.0
        self._wanted = False
        """Whether the step that runs is to be watched."""
        self._handles: list[Any] = []
        for i, optimizer in enumerate(context.optimizers):
            with self.contained(f"watching the steps of {type(optimizer).__name__}"):
                self._handles.append(optimizer.register_step_pre_hook(self._before_update))
                self._handles.append(optimizer.register_step_post_hook(partial(self._after_update, i)))

    def begin(self) -> Step:
        """Open the next step; one that is still open closes first."""
        self.finish()
        context = self._context
        index = context.step if self.last is None else self.last + 1
        rates = context.rates()
        probed = self._schedule.probed(index, rates)
        probing, watching = self._moments.choose(index, probed, self._schedule.due(index))
        self._began = time.perf_counter()
        row = self._outlet.buffer.row()
        row.host = {"step": index, "time": self._began - context.began, "probed": bool(probing), "lr": list(rates)}
        step = self._open = Step(self, index, probing, row)
        context.step, self._updating = index, 0
        self._updated.clear()
        self._wanted = watching and context.hooks
        return step

    def enter(self, step: Step) -> None:
        """The `with` block of a step begins: only there are modules hooked and functions watched."""
        if step is not self._open:
            return
        if self._wanted:
            self._start_watching(step)
        self._moments.call("begin", step)

    def _start_watching(self, step: Step) -> None:
        with self.contained("watching the forward pass"):
            self._watch.enter()
            self._watched = step
            if self.last is None:
                self.order.place(self._context.model)

    def leave(self, step: Step) -> None:
        """The `with` block of a step ended: no module runs under our hooks any longer."""
        if self._watched is step:
            self._stop_watching()
        if step is self._open:
            self._moments.call("leave", step)
        step.row.host["duration"] = time.perf_counter() - self._began

    def _stop_watching(self) -> None:
        self._watched = None
        self._watch.leave()  # first: it puts hooks back that an interrupted fast path was spared
        self.order.remove()
        self._context.capture.disarm()

    def backward(
        self,
        step: Step,
        loss: Tensor,
        outputs: Tensor | None,
        targets: Tensor | None,
        scaler: Any,
        backward: Backward | None,
    ) -> None:
        """Describe the pass, differentiate, measure. Only differentiating can raise, as it would without us.

        Within the optimizer's step a closure may differentiate several times: the first time is recorded.
        """
        total = loss.mean() if loss.dim() == 1 else loss
        again = step is not self._open or bool(self._updating and step.micro_batches)
        if self._updating:
            step.row.host["evaluations"] = 1 + int(step.row.host.get("evaluations", 0))  # type: ignore[call-overload]
        if again:
            differentiate(total, scaler, backward)
            return
        batch = self._described(step, total, loss, outputs, targets)
        self._context.capture.samples = batch.samples
        if not step.micro_batches:
            step.loss_graph, step.loss_calls, step.micro_batch = total, self._watch.loss_calls, batch
            self._moments.call("before_backward", step)
            step.loss_graph, step.loss_calls, step.micro_batch, step.hessian = None, (), None, None
        self._watch.loss_calls = ()
        self._context.capture.listening = True
        try:
            scaled = differentiate(total, scaler, backward)
        finally:
            self._context.capture.listening = False
        step.scale = self._scale(scaler, scaled, total)
        try:
            _note(step, batch)
        except Exception as error:
            self._moments.report("noting the loss", error)
        self._moments.call("after_backward", step)

    def _scale(self, scaler: Any, scaled: Tensor, loss: Tensor) -> Tensor | None:
        """The 0-d factor by which gradients are too large until the optimizer steps; None without a scaler."""
        if scaler is None:
            return None
        with self.contained("reading the scaler"):
            factor = getattr(scaler, "_scale", None)
            if isinstance(factor, Tensor):
                return factor.detach().clone()
            return (scaled / loss).detach() if scaled is not loss else None
        return None

    def _described(
        self, step: Step, total: Tensor, loss: Tensor, outputs: Tensor | None, targets: Tensor | None
    ) -> MicroBatch:
        unreduced = loss.detach() if loss.dim() == 1 else None
        if self._watched is step:
            with self.contained("reading the loss"):
                return self._watch.describe(total, unreduced, outputs, targets)
        reason = "the model is compiled: neither its layers nor its loss are seen"
        reason = "its passes were not seen" if self._context.hooks else reason
        samples = None if unreduced is None or step.micro_batches else len(unreduced)
        if unreduced is not None and samples is None:
            self._context.explain(("steps.batch_size",), UNCLEAR)
        return MicroBatch(total.detach(), samples, losses=unreduced, reason=reason)

    def _before_update(self, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._updating += 1
        if self._open is not None and self._updating == 1 and not self._updated:
            self._moments.call("before_update", self._open)

    def _after_update(self, position: int, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._updating = max(0, self._updating - 1)
        if self._open is None or not self._open.micro_batches:
            return
        self._updated.add(position)
        if (
            len(self._context.optimizers) == 1 and not self._updating
        ):  # with several another may follow: the step closes when the next begins
            self.finish()

    def finish(self) -> None:
        """Close the open step, if there is one; a step without a backward pass leaves no row."""
        step, self._open = self._open, None
        if step is None:
            return
        if self._watched is not None:
            self._stop_watching()
        if step.micro_batches:
            self._complete(step)
            self.last, self.recorded = step.index, self.recorded + 1
        else:
            self._outlet.buffer.discard(step.row)
            self._missed += 1
            if self._missed == MISSED and not self.recorded:
                self._context.explain(("steps.loss",), NOT_CALLED)
                logger.warning("glideslope: %s", NOT_CALLED)
        self._moments.call("end", step)
        self._context.before = self._context.update = None
        self._context.capture.release()

    def _complete(self, step: Step) -> None:
        if self._updated:
            step.row.host["optimizer"] = min(self._updated)
            self._moments.call("after_update", step)
            self._moments.call("collect", step)
            step.row.host["duration"] = time.perf_counter() - self._began
        elif step.scale is not None:
            step.row.host["skipped"] = True
            self._context.event("skipped-step", f"the gradient scaler skipped the optimizer's step {step.index}")

    def close(self) -> None:
        """Close the open step and remove every hook."""
        self.finish()
        for handle in self._handles:
            handle.remove()

    @contextmanager
    def contained(self, doing: str) -> Iterator[None]:
        """Errors of our own never reach the training: they are logged once and recorded, or raised in strict mode."""
        try:
            yield
        except Exception as error:
            self._moments.report(doing, error)


def differentiate(loss: Tensor, scaler: Any, backward: Backward | None) -> Tensor:
    """The user's backward call; the loss as it was differentiated, scaled if there is a scaler."""
    scaled: Tensor = loss if scaler is None else scaler.scale(loss)
    if backward is None:
        scaled.backward()
    else:
        backward(scaled)
    return scaled


def _note(step: Step, batch: MicroBatch) -> None:
    """What every row says of its passes."""
    step.micro_batches.append(batch)
    row = step.row
    row.add("loss", batch.loss)
    row.host["micro_batches"] = len(step.micro_batches)
    counts = [each.samples for each in step.micro_batches if not each.again]
    row.host["batch_size"] = None if None in counts else sum(count or 0 for count in counts)
    if step.scale is not None:
        row.put("loss_scale", step.scale)
