"""Short trainings under a recorder, with what a test needs to compute the recorded values another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn

from recorder import Recorder

Batch = tuple[Any, Tensor]


@dataclass
class Training:
    """What happened: parameters before each step and after the last, and the recorded tables."""

    path: Path
    model: nn.Module
    parameters: list[list[Tensor]] = field(default_factory=list)

    @property
    def steps(self) -> pl.DataFrame:
        """The recorded steps."""
        return read(self.path, "steps")

    def update(self, step: int) -> list[Tensor]:
        """What step `step` added to each parameter."""
        before, after = self.parameters[step], self.parameters[step + 1]
        return [b - a for a, b in zip(before, after, strict=True)]

    def reasons(self) -> list[str]:
        """Why columns are null."""
        return read(self.path, "events").filter(pl.col("kind") == "not-measured")["message"].to_list()

    def errors(self) -> list[str]:
        """What went wrong inside the recorder."""
        return read(self.path, "events").filter(pl.col("kind") == "error")["message"].to_list()


def read(path: Path, table: str) -> pl.DataFrame:
    """A recorded table, as it lies on disk."""
    frame = pl.read_parquet(path / table / "*.parquet")
    return frame.sort("step", maintain_order=True)


def train(
    path: Path,
    model: nn.Module,
    batches: Iterable[Batch | Sequence[Batch]],
    loss_fn: Callable[..., Tensor],
    optimizer: Callable[..., torch.optim.Optimizer] | None = None,
    between: Callable[[nn.Module], object] = lambda model: None,
    zero: bool = True,
    **settings: Any,
) -> Training:
    """Train on each batch in turn; a list of them is accumulated into one step. `between`: backward pass and update."""
    made = (optimizer or (lambda p: torch.optim.SGD(p, lr=0.1)))(model.parameters())
    training = Training(path, model)
    with Recorder(path, model, made, loss_fn, **{"strict": True, **settings}) as recorder:
        for batch in batches:
            training.parameters.append([p.detach().clone() for p in model.parameters()])
            parts = batch if isinstance(batch, list) else [batch]
            if zero:
                made.zero_grad()
            with recorder.step() as step:
                for inputs, targets in parts:
                    step.backward(loss_fn(model(inputs), targets) / len(parts))
            between(model)
            made.step()
    training.parameters.append([p.detach().clone() for p in model.parameters()])
    return training


def projections(
    model: nn.Module, parameters: list[Tensor], losses: Callable[[nn.Module], Iterable[Tensor]], direction: list[Tensor]
) -> Tensor:
    """g_i.d of each loss at given parameters, one backward pass each: the slow and obvious way."""
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(value)
    found = []
    for loss in losses(model):
        moving = [(p, d) for p, d in zip(model.parameters(), direction, strict=True) if p.requires_grad]
        gradients = torch.autograd.grad(loss, [p for p, _ in moving], allow_unused=True)
        pairs = zip(gradients, [d for _, d in moving], strict=True)
        found.append(sum((g * d).sum() for g, d in pairs if g is not None))
    return torch.stack(found)  # type: ignore[arg-type]
