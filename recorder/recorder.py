"""The Recorder: life of a run."""

from __future__ import annotations

import argparse
import atexit
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from torch import Tensor, nn
from torch.optim import Optimizer

from .attempt import admit
from .context import Context
from .directory import RunDirectory
from .evaluation import audited_evaluation
from .forward import is_compiled
from .instruments import PRESETS
from .manifest import Origin, end_file, git_commit, now, run_file
from .moments import Moments
from .outlet import Outlet
from .schedule import DENSE_STEPS, SPARSER, Schedule
from .schema import end_file_name, run_file_name
from .settings import check, checked_intervals, checked_samples, tenth_of_memory
from .signals import SignalWatch
from .step import Step
from .stepping import Stepping
from .tensors import Tensors, is_sharded


class Recorder:
    """Records a training beside which it runs; the README has the loop.

    `run_dir`: a path, or a URI that `pyarrow.fs` understands. A directory that holds a run is refused with
    `RunExistsError` unless `resume` is true: then a new attempt begins at `first_step` (by default after the last
    recorded step) and voids earlier rows from there on.
    `optimizer`: one, or several. `loss_fn`: names the loss in the run file; parameters of its own are recorded too.
    `preset`: a key of `instruments.PRESETS`. `every`: steps between probes, once the first `dense_steps` are over.
    `instruments`: by name, as `glideslope info` lists them, other steps between probes, or None to leave one out.
    `target`: levels aimed at, by metric. `mode`: "overfit-batch" marks a run on one repeated batch.
    `probe_memory`: bytes that a probe may hold, by default a tenth of the device's memory.
    `histogram_samples`: samples of a step whose gradients the histograms count, or "all"; by default at most 16, and
    fewer of layers with many parameters.
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
        instruments: Mapping[str, int | None] | None = None,
        hparams: Mapping[str, Any] | argparse.Namespace | None = None,
        target: Mapping[str, float] | None = None,
        mode: Literal["train", "overfit-batch"] = "train",
        resume: bool = False,
        first_step: int | None = None,
        probe_memory: int | None = None,
        histogram_samples: int | Literal["all"] | None = None,
        strict: bool = False,
    ) -> None:
        self._optimizers = tuple(optimizer) if isinstance(optimizer, Iterable) else (optimizer,)
        check(model, self._optimizers, preset, every, dense_steps, mode)
        self._own = checked_intervals(preset, instruments or {})
        self._directory = RunDirectory(run_dir)
        self._model, self._loss_fn = model, loss_fn
        self._preset, self._every, self._dense_steps, self._mode = preset, every, dense_steps, mode
        self._hparams = dict(vars(hparams)) if hasattr(hparams, "__dict__") else dict(hparams or {})
        self._target = dict(target or {})
        self._resume, self._first_step = resume, None if first_step is None else operator.index(first_step)
        self._probe_memory, self._strict = probe_memory, strict
        self._histogram_samples = checked_samples(histogram_samples)
        self._state: Literal["new", "running", "closed"] = "new"
        self._process = os.getpid()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def start(self) -> None:
        """Begin the run. Raises RunExistsError where the directory holds one, OSError where it cannot be written."""
        if self._state != "new":
            raise RuntimeError(f"this recorder of {self._directory.where} was started before; make a new one")
        self._attempt, self._claim = admit(self._directory, self._resume, self._first_step)
        try:
            self._origin = self._made_origin()
            self._prepare()
        except BaseException:
            self._claim.release()
            raise
        self._signals = SignalWatch(self._signalled, self._stopped)
        self._signals.install()
        atexit.register(self._at_exit)
        self._described = False
        self._state = "running"

    def _made_origin(self) -> Origin:
        attempt = self._attempt
        return Origin(
            run_id=attempt.run_id,
            attempt=attempt.number,
            first_step=attempt.first_step,
            rank_count=attempt.rank_count,
            preset=self._preset,
            mode=self._mode,
            schedule={"dense_steps": self._dense_steps, "every": self._every} | self._own,
            hparams=self._hparams,
            target=self._target,
            started=now(),
            git_commit=git_commit(),
        )

    def _prepare(self) -> None:
        """Everything that lives as long as the run."""
        attempt = self._attempt
        tensors = Tensors.of(self._model, self._loss_fn)
        device = tensors.device
        self._outlet = Outlet(self._directory, attempt, self._run_id, tensors, device)
        self._context = Context(
            self._model,
            self._optimizers,
            self._loss_fn,
            tensors,
            self._outlet.deferred,
            tenth_of_memory(device) if self._probe_memory is None else self._probe_memory,
            hooks=not is_compiled(self._model),
            ranks=attempt.rank_count,
            sharded=is_sharded(self._model),
            step=attempt.first_step,
            histogram_samples=self._histogram_samples,
        )
        instruments = [kind(self._context) for kind in PRESETS[self._preset] if self._own.get(kind.name, 1) is not None]
        sparse = {i.name: SPARSER * self._every for i in instruments if i.sparse}
        own = sparse | {name: every for name, every in self._own.items() if every is not None}
        self._moments = Moments(self._context, instruments, self._strict, own)
        schedule = Schedule(
            self._every, self._dense_steps, attempt.first_step, own, frozenset(sparse), len(self._optimizers) > 1
        )
        self._stepping = Stepping(self._context, self._moments, schedule, self._outlet)
        self._context.event("start", f"attempt {attempt.number} began at step {attempt.first_step}")

    def step(self) -> Step:
        """The forward and backward passes of one optimizer step, as a context manager."""
        if self._state != "running":
            raise RuntimeError("the recorder does not run: use it in a `with` statement, or call start() first")
        self._stepping.finish()
        if self._stepping.recorded and not self._described:
            self._contained("describing the run", self._describe)
        if self._outlet.due:
            self._contained("draining", self._outlet.drain)
        return self._stepping.begin()

    def log(self, split: str, step: int | None = None, epoch: float | None = None, **values: Tensor | float) -> None:
        """Record metrics of a split ("train", "valid", "test", "test-valid" or another name) at a step, by default now.

        Values are numbers or tensors of one element; those on a device are taken without waiting for it. What is
        neither is told and left out, since a slip here should not cost a training.
        """
        if self._state != "running":
            raise RuntimeError("the recorder does not run: log inside its `with` statement")
        at = self._context.step if step is None else step
        for name, value in values.items():
            self._contained(f"logging {name!r}", partial(self._log, split, at, epoch, name, value))
        if self._outlet.deferred.full:
            self._outlet.drain_deferred()

    def _log(self, split: str, step: int, epoch: float | None, name: str, value: Tensor | float) -> None:
        """Add a row to `metrics`. Raises TypeError or ValueError, which say what is wrong with the metric."""
        if isinstance(value, Tensor):
            if value.numel() != 1 or value.is_complex():
                raise ValueError(f"a metric is one real number, not a tensor of shape {tuple(value.shape)}")
            value = value.detach().reshape(())
        row = {
            "step": operator.index(step),
            "epoch": None if epoch is None else float(epoch),
            "split": str(split),
            "name": name,
            "value": value if isinstance(value, Tensor) else float(value),
        }
        self._outlet.deferred.add("metrics", row)

    @contextmanager
    def evaluate(self, split: str) -> Iterator[None]:
        """A pass outside training: the modes of the modules and the input are looked at once, nothing is probed."""
        if self._state != "running" or not self._context.hooks:
            yield
            return
        with audited_evaluation(self._context, split):
            yield

    def close(self, error: BaseException | None = None) -> None:
        """End the run; `error` is what ended it. What was measured is written, hooks and handlers are gone.

        In a child process that was forked it does nothing: the run is the parent's.
        """
        if self._state != "running" or os.getpid() != self._process:
            return
        self._state = "closed"
        atexit.unregister(self._at_exit)
        self._signals.restore()
        if isinstance(error, SystemExit) and not error.code:
            error = None
        with ExitStack() as stack:  # from the last to the first, each whatever became of the others
            stack.callback(self._contained, "leaving the directory", self._claim.release)
            stack.callback(self._contained, "writing the end file", partial(self._write_end, error))
            stack.callback(self._contained, "writing the last shards", self._outlet.writer.close)
            stack.callback(
                self._contained, "draining", partial(self._outlet.drain, None if error is None else "exception")
            )
            stack.callback(self._contained, "describing the run", self._describe)
            stack.callback(self._contained, "closing the last step", self._stepping.close)

    def _contained(self, doing: str, action: Callable[[], object]) -> None:
        with self._stepping.contained(doing):
            action()

    def _write_end(self, error: BaseException | None) -> None:
        end = end_file(self._origin, self._attempt.rank, self._stepping.last, self._stepping.recorded, error)
        self._directory.write_json(end_file_name(self._attempt.number, self._attempt.rank), end)

    def _describe(self) -> None:
        """Have the run file written, once: the first step has shown the order of the modules."""
        if self._described:
            return
        self._described = True
        if self._attempt.rank == 0:
            content = run_file(self._origin, self._context, self._stepping.order.order, self._moments.instruments)
            name = run_file_name(self._attempt.number)
            self._outlet.writer.call(lambda: self._directory.write_json(name, content))

    def _run_id(self) -> str:
        """The run's id. Ranks agree on it through the run file, which rank 0 writes; an unknown one is empty."""
        known = self._attempt.run_id or (self._directory.run_file(self._attempt.number) or {}).get("run_id", "")
        return str(known)

    def _at_exit(self) -> None:
        """The program ended without closing the recorder: the interpreter knows whether by an exception."""
        self.close(getattr(sys, "last_value", None))

    def _signalled(self, name: str) -> None:
        if self._state != "running" or os.getpid() != self._process:
            return
        with suppress(Exception):
            self._context.event("signal", f"the process was asked to stop by {name}", signal=name)
        self._outlet.hurry()

    def _stopped(self, name: str) -> None:
        """The process ends as soon as this returns."""
        self.close(Stopped(f"by {name}"))


class Stopped(Exception):
    """A signal ended the process."""
