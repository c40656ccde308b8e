"""What the calibration zoo is made of: programs, their variants, and the kinds of fault that label them.

A program is one file: a data set, a model family and a plain training loop. Its variants are sets of arguments of that
loop: healthy ones, faulty ones, and for each faulty one its twin, the same training with the fault repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")
Record = Callable[..., AbstractContextManager[Any]]
"""`record(model, optimizer, loss_fn=None, **options)`, for use in a `with` statement: a Recorder, or an Unrecorded."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "nonfinite": ("NUM001",),
    "exploding-gradients": ("GRD001",),
    "vanishing-gradients": ("GRD002",),
    "rate-too-large": ("STP001",),
    "rate-too-small": ("STP002",),
    "rate-decayed": ("STP003", "STP004"),
    "schedule-rhythm": ("STP004",),
    "clipping-too-tight": ("STP005",),
    "clipping-before-unscaling": ("STP006",),
    "oscillating": ("LOS004",),
    "spike": ("LOS003",),
    "diverged": ("LOS002",),
    "stalled": ("LOS001",),
    "at-chance": ("LOS005", "DAT007"),
    "does-not-fit-one-batch": ("LOS006",),
    "dead-units": ("ACT001",),
    "saturated-units": ("ACT002",),
    "small-batch-norm": ("ACT003",),
    "batch-norm-mode": ("ACT004",),
    "init-zero-or-symmetric": ("UPD003",),
    "init-too-large": ("GRD001", "UPD004"),
    "wiring": ("WIR001", "UPD002"),
    "no-zero-grad": ("GRD003",),
    "update-outlier": ("UPD001",),
    "bias-before-batch-norm": ("UPD005",),
    "unnormalised-inputs": ("DAT001",),
    "unnormalised-targets": ("DAT002",),
    "softmax-twice": ("DAT003",),
    "wrong-dimension": ("DAT004", "DAT011", "DAT012"),
    "silent-broadcast": ("DAT005",),
    "flipped-sign": ("DAT006",),
    "wrong-labels": ("DAT007",),
    "leaked-answer": ("DAT008", "DAT012"),
    "unshuffled": ("DAT009",),
    "class-imbalance": ("DAT010",),
    "batch-too-small": ("CUR001",),
    "edge-of-stability": ("CUR002",),
    "early-stopping": ("CUR003",),
    "overfitting": ("GEN001",),
    "too-much-regularisation": ("GEN002",),
    "validation-in-train-mode": ("GEN003",),
    "killed": ("RUN001",),
    "recorder-degraded": ("RUN002",),
    "shards-missing": ("RUN003",),
    "throughput": ("RUN004",),
}
"""The kinds of fault, with the codes of the rules that name each as a cause.

A rate that was gone too early may be the schedule's rhythm; who stays at chance may be given inputs that tell nothing.
"""

NOTES = frozenset({"bias-before-batch-norm", "edge-of-stability", "early-stopping"})
"""Kinds that are worth a note and no more: a training that has one is healthy otherwise."""

EXEMPT = NOTES | {
    "leaked-answer",  # the outcome is too good
    "validation-in-train-mode",  # the model is none the worse, its validation is
    "unshuffled",  # harm depends on the data
    "killed",  # nothing comes out of it
    "recorder-degraded",
    "shards-missing",
    "throughput",
}
"""Kinds whose harm does not show in the outcome: outcome.py takes their label for granted."""


@dataclass(frozen=True)
class Variant:
    """One way to run a program.

    `change`: arguments of the program's train function. `fault`: a key of KINDS, or None where it is healthy.
    `twin`: of a faulty variant, the name of the healthy one of the same program in which the fault is repaired.
    `also`: further kinds that are as true of it: weights so large that units saturate, say.
    """

    name: str
    change: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None
    twin: str | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """A training loop with its variants.

    `train(record, seed, **change)` trains under `record` and returns the outcome on data held out, the higher the
    better. All that varies from run to run, the weights and the order of the data, comes from `seed`.
    """

    name: str
    train: Callable[..., float]
    variants: tuple[Variant, ...]

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises KeyError where there is none."""
        return {each.name: each for each in self.variants}[name]


class Unrecorded:
    """Stands in for a Recorder where only the outcome counts: has its methods, and records nothing."""

    def step(self) -> AbstractContextManager[UnrecordedStep]:
        """The forward and backward passes of one optimizer step."""
        return _yield(UnrecordedStep())

    def evaluate(self, split: str) -> AbstractContextManager[None]:
        """A pass outside training."""
        return _yield(None)

    def log(self, split: str, step: int | None = None, epoch: float | None = None, **values: Tensor | float) -> None:
        """Metrics of a split."""


class UnrecordedStep:
    """Stands in for a step of the recorder."""

    def backward(
        self,
        loss: Tensor,
        *,
        outputs: Tensor | None = None,
        targets: Tensor | None = None,
        scaler: Any = None,
        backward: Callable[[Tensor], object] | None = None,
    ) -> None:
        """Differentiate the loss, or the mean of unreduced losses."""
        loss = loss.mean()
        if backward is not None:
            backward(loss)
        else:
            (loss if scaler is None else scaler.scale(loss)).backward()


@contextmanager
def _yield(value: T) -> Iterator[T]:
    yield value


def unrecorded(model: object, optimizer: object, loss_fn: object | None = None, **options: Any) -> Any:
    """`record` for runs of which only the outcome counts."""
    return _yield(Unrecorded())
