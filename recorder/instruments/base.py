"""What an instrument is: static metadata, and a method for each moment of a step that it cares about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..schema import table_of

if TYPE_CHECKING:
    from ..context import Context
    from ..schema import Column
    from ..step import Step


class Instrument:
    """Measures something at some moments of a step and puts it into the step's row.

    The recorder calls only the moments that a subclass overrides. An exception switches the instrument off and is
    recorded; training goes on. Values stay on the device: no `.item()`, no comparison in Python, no `bincount`.
    """

    name: ClassVar[str]
    """Noun, lower case with hyphens, as shown by `glideslope info`."""
    columns: ClassVar[tuple[Column, ...]]
    """What it fills, as defined in `schema.py`."""
    edges: ClassVar[Sequence[float] | Mapping[str, Sequence[float]]] = ()
    """Edges of the bins of a histogram, for the run file; of one with several dimensions, by dimension."""
    every_step: ClassVar[bool] = False
    """True for the cheap ones that look at every step; the others are called at probed steps only."""
    sparse: ClassVar[bool] = False
    """True for the expensive ones: they probe at every SPARSER-th probe only, and not densely at the start."""
    serves: ClassVar[bool] = False
    """True for those whose findings others build on: they probe whenever any instrument does."""
    needs_layers: ClassVar[bool] = False
    """True for those that watch the layers' inputs and output gradients, which a compiled model does not show."""
    needs_whole: ClassVar[bool] = False
    """True for those that read parameters and their gradients, of which a rank of a sharded model holds a part only."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def explain(self, reason: str) -> None:
        """Say, once for each reason, why nothing that it fills is there."""
        if self.columns:
            self.context.explain(tuple(f"{table_of(column)}.{column.name}" for column in self.columns), reason)

    def wants(self, index: int, probed: bool) -> bool:
        """Whether to call the instrument at this step at all."""
        return probed or self.every_step

    def begin(self, step: Step) -> None:
        """The step was opened; nothing ran yet. Hooks may be placed here."""

    def before_backward(self, step: Step) -> None:
        """The step's first backward pass is about to run."""

    def after_backward(self, step: Step) -> None:
        """A backward pass ended; `step.micro_batches[-1]` describes it."""

    def leave(self, step: Step) -> None:
        """The `with` block of the step ended, perhaps by an exception: module hooks must go."""

    def before_update(self, step: Step) -> None:
        """The optimizer is about to step; gradients may have been clipped."""

    def after_update(self, step: Step) -> None:
        """The optimizer stepped. With several optimizers, all that did."""

    def collect(self, step: Step) -> None:
        """Every instrument has seen the update: read what was asked for then (`Passes.ask`)."""

    def end(self, step: Step) -> None:
        """The step closes, whether or not an optimizer stepped: remove hooks, let go of tensors."""
