"""The Recorder: life of a run, and of a step."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .buffer import Buffer
from .context import Context, Tensors
from .deferred import Deferred
from .directory import RunDirectory, RunExistsError
from .forward import ForwardWatch, OrderWatch, is_compiled
from .instruments import PRESETS, Instrument
from .manifest import Origin, end_file, git_commit, now, run_file
from .moments import Moments
from .schedule import DENSE_STEPS, Schedule
from .signals import SignalWatch
from .step import MicroBatch, Step
from .writer import ShardNames, Writer

logger = logging.getLogger("glideslope")


class Recorder:
    """Records a training beside which it runs. See the README for the loop; every method is safe to call at any time.

    `run_dir`: a path, or a URI that `pyarrow.fs` understands. A directory that holds a run is refused with
    `RunExistsError` unless `resume` is true: then a new attempt begins at `first_step` (by default after the last
    recorded step) and voids earlier rows from there on.
    `optimizer`: one, or a list of them. `loss_fn`: helps to name the loss; its parameters, if any, are recorded too.
    `preset`: see `instruments.PRESETS`. `every`: steps between probes once the first `dense_steps` are over.
    `target`: levels aimed at, by metric. `mode`: "overfit-batch" marks a run on one repeated batch.
    `probe_memory`: bytes that a probe may hold, by default a tenth of the device's memory.
    `strict`: raise what goes wrong inside the recorder, instead of recording it and training on.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        model: nn.Module,
        optimizer: Optimizer | Iterable[Optimizer],
        loss_fn: object | None = None,
        *,
        preset: str = "economy",
        every: int = 16,
        dense_steps: int = DENSE_STEPS,
        hparams: Mapping[str, Any] | None = None,
        target: Mapping[str, float] | None = None,
        mode: Literal["train", "overfit-batch"] = "train",
        resume: bool = False,
        first_step: int | None = None,
        probe_memory: int | None = None,
        strict: bool = False,
    ) -> None:
        _check(model, preset, every, dense_steps, mode)
        self._directory = RunDirectory(run_dir)
        self._model = model
        self._optimizers = (optimizer,) if isinstance(optimizer, Optimizer) else tuple(optimizer)
        self._loss_fn = loss_fn
        self._preset, self._every, self._dense_steps, self._mode = preset, every, dense_steps, mode
        self._hparams, self._target = dict(hparams or {}), dict(target or {})
        self._resume, self._first_step, self._strict = resume, first_step, strict
        self._probe_memory = probe_memory
        self._open: Step | None = None
        self._state: Literal["new", "running", "closed"] = "new"

    # -- life of a run ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(error)

    def start(self) -> None:
        """Begin the run. Raises RunExistsError where the directory holds one, OSError where it cannot be written."""
        if self._state != "new":
            raise RuntimeError(f"this recorder of {self._directory.where} was started before; make a new one")
        self._rank, rank_count = _ranks()
        attempt, run_id, first_step = self._admitted()
        self._directory.prepare()
        schedule = Schedule(self._every, self._dense_steps, first_step)
        self._schedule = schedule
        self._origin = Origin(
            run_id=run_id, attempt=attempt, first_step=first_step, rank_count=rank_count, preset=self._preset, mode=self._mode,
            schedule={"dense_steps": self._dense_steps, "every": self._every}, hparams=self._hparams, target=self._target,
            started=now(), git_commit=git_commit(),
        )  # fmt: skip
        self._next, self._recorded, self._last_step = first_step, 0, None
        self._prepare()
        self._signals = SignalWatch(self._signalled)
        self._signals.install()
        atexit.register(self._at_exit)
        self._state = "running"

    def _admitted(self) -> tuple[int, str, int]:
        """Number of this attempt, id of the run, and first step."""
        attempts = self._directory.attempts()
        if not attempts or self._rank > 0:
            attempt = len(attempts)
            return attempt, uuid.uuid4().hex, self._first_step or 0
        if not self._resume:
            raise RunExistsError(
                f"{self._directory.where} holds a run already: choose another directory, or pass resume=True to go on with it"
            )
        last = self._directory.last_step()
        first_step = self._first_step if self._first_step is not None else (0 if last is None else last + 1)
        previous = self._directory.run_file(attempts[-1]) or {}
        return attempts[-1] + 1, str(previous.get("run_id") or uuid.uuid4().hex), first_step

    def _prepare(self) -> None:
        """Everything that lives as long as the run."""
        device = next((p.device for p in self._model.parameters()), torch.device("cpu"))
        tensors = Tensors.of(self._model, self._loss_fn)
        self._context = Context(
            self._model, self._optimizers, self._loss_fn, tensors, Deferred(device), self._probe_memory or _tenth(device)
        )
        self._context.step = self._next
        self._compiled = is_compiled(self._model)
        self._buffer = Buffer(device, len(tensors))
        self._writer = Writer(
            self._directory, ShardNames(self._origin.attempt, self._rank), self._run_id, tensors.names
        )
        instruments = [kind(self._context) for kind in PRESETS[self._preset]]
        self._moments = Moments(self._context, instruments, self._compiled, self._strict)
        self._watch = ForwardWatch(self._model, self._loss_fn)
        self._order = OrderWatch()
        self._described = False
        self._handles = [
            handle
            for i, optimizer in enumerate(self._optimizers)
            for handle in (
                optimizer.register_step_pre_hook(partial(self._before_update, i)),
                optimizer.register_step_post_hook(partial(self._after_update, i)),
            )
        ]
        self._drain_due = time.monotonic() + self._writer.interval
        self._context.event("start", f"attempt {self._origin.attempt} began at step {self._next}")

    def close(self, error: BaseException | None = None) -> None:
        """End the run; `error` is what ended it. What was measured is written, hooks and handlers are gone."""
        if self._state != "running":
            return
        self._state = "closed"
        if isinstance(error, SystemExit) and not error.code:
            error = None
        with self._contained("closing"):
            self._finish_open_step()
            self._release()
            if not self._described:
                self._describe()
            self._drain(None if error is None else "exception")
            self._writer.close()
            end = end_file(self._origin, self._rank, self._last_step, self._recorded, error)
            self._directory.write_json(f"end-a{self._origin.attempt:02}-r{self._rank:03}.json", end)

    def _release(self) -> None:
        self._signals.restore()
        atexit.unregister(self._at_exit)
        for handle in self._handles:
            handle.remove()
        self._order.remove()
        self._watch.leave()
        self._context.capture.release()

    def _at_exit(self) -> None:
        """The program ended without closing the recorder: the interpreter knows whether by an exception."""
        self.close(getattr(sys, "last_value", None))

    # -- what the user says -------------------------------------------------------------------------------------------

    def step(self) -> Step:
        """The forward and backward passes of one optimizer step, as a context manager."""
        if self._state != "running":
            raise RuntimeError("the recorder does not run: use it in a `with` statement, or call start() first")
        self._finish_open_step()
        if self._buffer.full or self._context.deferred.full or time.monotonic() >= self._drain_due:
            with self._contained("draining"):
                self._drain()
        return self._begin()

    def log(self, split: str, step: int | None = None, epoch: float | None = None, **values: Tensor | float) -> None:
        """Record metrics of a split ("train", "valid", "test", "test-valid" or another name) at a step, by default now.

        Values are numbers or tensors of one element; those on a device are taken without waiting for it.
        """
        if self._state != "running":
            raise RuntimeError("the recorder does not run: log inside its `with` statement")
        at = self._context.step if step is None else step
        for name, value in values.items():
            number = value.detach().reshape(()) if isinstance(value, Tensor) else float(value)
            columns = {"step": at, "epoch": epoch, "split": split, "name": name, "value": number}
            self._context.deferred.add("metrics", columns)
        if self._context.deferred.full:
            self._drain_deferred()

    @contextmanager
    def evaluate(self, split: str) -> Iterator[None]:
        """A pass outside training: the modes of the modules and the input are looked at once, nothing is probed."""
        from .instruments.evaluation import watch_evaluation

        with watch_evaluation(self._context, split, hooks=not self._compiled):
            yield

    # -- life of a step -----------------------------------------------------------------------------------------------

    def _begin(self) -> Step:
        index, rates = self._next, self._context.rates()
        probed = self._schedule.probed(index, rates)
        row = self._buffer.row()
        self._began = time.perf_counter()
        row.host = {"step": index, "time": self._began - self._context.began, "probed": probed, "lr": list(rates)}
        step = Step(self, index, probed, row)
        self._context.step = index
        self._open, self._updating, self._updated, self._entered = step, False, set(), False
        if self._moments.choose(index, probed) and not self._compiled:
            with self._contained("watching the forward pass"):
                self._watch.enter()
                self._entered = True
                if not self._described:
                    self._order.place(self._model)
        self._moments.call("begin", step)
        return step

    def _leave(self, step: Step) -> None:
        """The `with` block of a step ended: nothing of the user's runs under our hooks any longer."""
        self._order.remove()
        self._watch.leave()
        self._entered = False
        if self._context.capture.armed:
            self._context.capture.disarm()
        step.row.host["duration"] = time.perf_counter() - self._began

    def _backward(
        self,
        step: Step,
        loss: Tensor,
        outputs: Tensor | None,
        targets: Tensor | None,
        scaler: Any,
        backward: Callable[[Tensor], object] | None,
    ) -> None:
        """What `Step.backward` does: describe, differentiate, measure. Only differentiating can raise."""
        unreduced = loss if loss.dim() == 1 and len(loss) > 1 else None
        total = loss.mean() if loss.dim() == 1 else loss
        evaluations = int(step.row.host.get("evaluations") or 0)
        if self._updating:
            step.row.host["evaluations"] = evaluations + 1
        if step is not self._open or evaluations:
            _differentiate(total, scaler, backward)
            return
        batch = self._described_batch(total, unreduced, outputs, targets)
        if not step.micro_batches:
            step.loss_graph = total
            self._moments.call("before_backward", step)
            step.loss_graph = None
        step.scale = _differentiate(total, scaler, backward)
        self._note(step, batch)
        self._moments.call("after_backward", step)

    def _described_batch(
        self, loss: Tensor, unreduced: Tensor | None, outputs: Tensor | None, targets: Tensor | None
    ) -> MicroBatch:
        if self._entered:
            with self._contained("reading the loss"):
                return self._watch.describe(loss, unreduced, outputs, targets)
        losses = None if unreduced is None else unreduced.detach()
        reason = "the model is compiled: its layers and its loss are not seen"
        return MicroBatch(loss.detach(), None if losses is None else len(losses), losses=losses, reason=reason)

    def _note(self, step: Step, batch: MicroBatch) -> None:
        with self._contained("noting the loss"):
            step.micro_batches.append(batch)
            step.row.add("loss", batch.loss)
            step.row.host["micro_batches"] = len(step.micro_batches)
            if batch.samples is not None:
                step.row.host["batch_size"] = sum(each.samples or 0 for each in step.micro_batches)
            if step.scale is not None:
                step.put("loss_scale", step.scale)

    def _before_update(self, position: int, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        step = self._open
        if step is None or self._updating:
            return
        self._updating = True
        if not self._updated:
            self._moments.call("before_update", step)

    def _after_update(self, position: int, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        step = self._open
        if step is None or not step.micro_batches:
            return
        self._updating = False
        self._updated.add(position)
        if len(self._optimizers) == 1:  # with several, another one may follow: the step closes when the next begins
            self._finish_open_step()

    def _finish_open_step(self) -> None:
        step, self._open = self._open, None
        if step is None:
            return
        if not step.micro_batches:
            self._buffer.discard(step.row)
            self._context.capture.release()
            return
        if self._updated:
            step.row.host["optimizer"] = min(self._updated)
            self._moments.call("after_update", step)
            step.row.host["duration"] = time.perf_counter() - self._began
        elif step.scale is not None:
            step.row.host["skipped"] = True
            self._context.event("skipped-step", f"the gradient scaler skipped the optimizer's step {step.index}")
        self._context.before = self._context.update = None
        self._context.capture.release()
        self._last_step, self._next, self._recorded = step.index, step.index + 1, self._recorded + 1
        if not self._described:
            with self._contained("describing the run"):
                self._describe()

    # -- towards the disk ---------------------------------------------------------------------------------------------

    def _describe(self) -> None:
        """Write the run file, in the writer's thread."""
        self._described = True
        if self._rank == 0:
            content = run_file(self._origin, self._context, self._order.order, self._moments.instruments)
            name = f"run-a{self._origin.attempt:02}.json"
            self._writer.call(lambda: self._directory.write_json(name, content))

    def _drain(self, incident: str | None = None) -> None:
        self._writer.submit(self._buffer.drain(), incident)
        self._drain_deferred()
        self._drain_due = time.monotonic() + self._writer.interval

    def _drain_deferred(self) -> None:
        rows = self._context.deferred.drain()
        if rows is not None:
            self._writer.submit_rows(rows)

    def _run_id(self) -> str:
        """The run's id. Ranks agree on it through the run file, which rank 0 writes; an unknown one is empty."""
        if self._rank == 0:
            return self._origin.run_id
        known = self._directory.run_file(self._origin.attempt)
        return str(known["run_id"]) if known else ""

    def _signalled(self, name: str, final: bool) -> None:
        self._context.event("signal", f"the process was asked to stop by {name}", signal=name)
        if final:
            self.close(_Stopped(name))
        else:
            self._drain_due = 0.0

    @contextmanager
    def _contained(self, doing: str) -> Iterator[None]:
        """Errors of our own never reach the training: they are logged once and recorded, or raised in strict mode."""
        try:
            yield
        except Exception as error:
            if self._strict:
                raise
            self._moments.report(doing, error)


class _Stopped(Exception):
    """Names the signal that ended the process."""


def _differentiate(loss: Tensor, scaler: Any, backward: Callable[[Tensor], object] | None) -> Tensor | None:
    """The user's backward call; the factor by which gradients are too large, if there is one."""
    scaled = loss if scaler is None else scaler.scale(loss)
    if backward is None:
        scaled.backward()
    else:
        backward(scaled)
    if scaler is None or not scaler.is_enabled():
        return None
    return scaler._scale.detach().clone()  # type: ignore[no-any-return]


def _check(model: nn.Module, preset: str, every: int, dense_steps: int, mode: str) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {preset!r}")
    if every < 1 or dense_steps < 0:
        raise ValueError(f"every must be at least 1 and dense_steps at least 0, not {every} and {dense_steps}")
    if mode not in ("train", "overfit-batch"):
        raise ValueError(f"mode must be 'train' or 'overfit-batch', not {mode!r}")


def _ranks() -> tuple[int, int]:
    """This process's rank and their number."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _tenth(device: torch.device) -> int:
    """A tenth of the device's memory, in bytes."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 10
