"""One optimizer step while it is being recorded: its row, its micro-batches, and the backward call of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from .buffer import Histograms

if TYPE_CHECKING:
    from .buffer import Row
    from .entry_counts import EntryCounts
    from .hessian import Hessian
    from .losses import LossCall
    from .stepping import Stepping

Value = Tensor | float | int | bool


@dataclass(slots=True, eq=False)
class MicroBatch:
    """One forward and backward pass. Every tensor is detached; those but the loss exist on probed steps only."""

    loss: Tensor
    """0-d, as differentiated, before any gradient scaler."""
    samples: int | None = None
    inputs: tuple[Tensor, ...] = ()
    """What the model's forward was given."""
    prediction: Tensor | None = None
    target: Tensor | None = None
    """What the loss was given."""
    loss_name: str | None = None
    ignore_index: int | None = None
    """Target that the loss leaves out, where it was told one."""
    weighted: bool = False
    """Whether the loss was given weights of classes or elements."""
    label_smoothing: float = 0.0
    """Share of the targets that the loss spreads over all classes."""
    losses: Tensor | None = None
    """(samples,), individual losses, scaled so that their mean is the loss; None with the reason below."""
    reason: str = "the forward pass was not seen"
    part: Tensor | None = None
    """0-d, what the losses that were seen add to the loss."""
    again: bool = False
    """Whether it differentiates through the forward pass of the micro-batch before once more: the same samples."""


@dataclass(slots=True, eq=False)
class Step:
    """What `recorder.step()` yields. Instruments fill its row; the user calls only `backward`."""

    stepping: Stepping
    index: int
    probing: frozenset[str]
    """Names of the instruments that probe at this step."""
    row: Row
    micro_batches: list[MicroBatch] = field(default_factory=list)
    loss_graph: Tensor | None = None
    """The loss with its graph, only while `before_backward` runs."""
    hessian: Hessian | None = None
    """Of the loss, once an instrument has made it, at that time."""
    loss_calls: Sequence[LossCall] = ()
    """The functional losses that were seen, with their graphs, at that time."""
    micro_batch: MicroBatch | None = None
    """The micro-batch that is about to be differentiated, at that time."""
    scale: Tensor | None = None
    """0-d factor of a gradient scaler, by which `.grad` is too large until the optimizer steps."""

    def backward(
        self,
        loss: Tensor,
        *,
        outputs: Tensor | None = None,
        targets: Tensor | None = None,
        scaler: Any = None,
        backward: Callable[[Tensor], object] | None = None,
    ) -> None:
        """Differentiate `loss` in place of `loss.backward()`.

        `loss`: a scalar, or the unreduced losses (samples,), whose mean is differentiated. `outputs` and `targets`: the
        prediction and the target, where the recorder cannot see the loss being called. `scaler`: a `GradScaler`.
        `backward`: the call of a framework that owns it, such as `accelerator.backward`.
        """
        self.stepping.backward(self, loss, outputs, targets, scaler, backward)

    @property
    def probed(self) -> bool:
        """Whether any instrument does."""
        return bool(self.probing)

    def __enter__(self) -> Self:
        self.stepping.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.stepping.leave(self)

    def put(self, column: str, value: Value) -> None:
        """Set a column of the step's row in `steps`: a host number, or a 0-d tensor that stays on the device."""
        self.row.put(column, value)

    def put_vector(self, column: str, value: Tensor) -> None:
        """Set a list column of the step's row in `steps` from a tensor (n,), n the same at every step."""
        self.row.put_vector(column, value)

    def put_tensors(self, column: str, values: list[Tensor], positions: tuple[int, ...] | None = None) -> None:
        """Set a column of the step's rows in `layers`.

        0-d tensors for all parameter tensors, or for those at `positions`.
        """
        self.row.put_tensors(column, values, positions)

    def put_histograms(self, found: Mapping[int, EntryCounts], alone: bool, joint: bool) -> None:
        """Set the step's rows in `histograms`: counts by tensor position, those of the entries alone, joint or both."""
        if found:
            counts = torch.stack([each.counts for each in found.values()]) if alone else None
            pairs = torch.stack([each.joint for each in found.values() if each.joint is not None]) if joint else None
            samples = tuple(each.samples for each in found.values())
            self.row.histograms = Histograms(tuple(found), counts, pairs, samples)

    def add_row(self, table: str, **columns: object) -> None:
        """Add a row of host values to `modules` for this step."""
        self.row.rows.append((table, {"step": self.index, **columns}))
