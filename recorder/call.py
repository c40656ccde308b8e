"""One call of a module: what went in, the gradients of what came out, and which dimension runs over the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from .nested import tensors_in


@dataclass(slots=True, eq=False)
class Call:
    """One call of a module: what went in (detached), and the gradients of what came out, as they arrive."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...]
    """Of the first output that is differentiable, all samples."""
    shapes: Mapping[int, tuple[int, ...]]
    """Of all outputs that are differentiable, by position."""
    input_shapes: tuple[tuple[int, ...], ...]
    """Of the tensors that went in, parameters apart."""
    gradients: dict[int, Tensor] = field(default_factory=dict)
    """Gradient of an output tensor by its position in the flattened output."""
    random_state: tuple[Tensor, Tensor | None] | None = None
    """State of the random numbers when the module was called: CPU, and the device's."""
    buffers: Mapping[str, Tensor] | None = None
    """Copies of the module's buffers when it was called, which the call may have moved."""
    versions: tuple[int, ...] = ()
    edges: dict[int, GradientEdge] = field(default_factory=dict)
    """Where in the graph the outputs are, if asked for."""
    packed: bool = False
    """Whether packed sequences went in or came out: their entries are sorted by time."""
    nested: bool = False
    """Whether one output was made of another, so that the gradient of the latter says the same again."""

    def sample_dimension(self, samples: int) -> int | None:
        """The dimension of the output that runs over samples; None if none does, or nothing that went in did."""
        if self.packed or all(sample_dimension(self.module, shape, samples) is None for shape in self.input_shapes):
            return None
        return sample_dimension(self.module, self.shape, samples)

    def in_doubt(self, samples: int, by_time: bool) -> bool:
        """Whether the dimension found is a guess; more are where other calls of the model run over time first.

        Of two dimensions that fit either may be that of the samples, and what was flattened may be sorted by time.
        """
        if time_first(self.module) or self.sample_dimension(samples) != 0:
            return False
        one_each = self.shape[0] == samples
        others = () if isinstance(self.module, nn.RNNBase) else self.shapes.values()
        either = any(self._either(shape, samples) for shape in (self.shape, *others))
        return (either and not one_each) or (by_time and (either or not one_each))

    def _either(self, shape: tuple[int, ...], samples: int) -> bool:
        """Whether both of the first two dimensions of a sequence could run over the samples."""
        sequences = len(shape) > 2 and not isinstance(self.module, _WITH_CHANNELS)
        return sequences and shape[1] == samples and shape[0] % samples == 0

    def dimension_of(self, position: int, samples: int) -> int | None:
        """The same of one output, by its position."""
        found, shape = self.sample_dimension(samples), self.shapes[position]
        if found is not None and position and isinstance(self.module, nn.RNNBase):
            return 1 if len(shape) == 3 else None  # states are by layer, whatever comes first in sequences
        return found if found is None or shape == self.shape else sample_dimension(self.module, shape, samples)

    @property
    def input(self) -> Any:
        """What went in, of a layer of torch with one input."""
        return self.args[0] if self.args else self.kwargs["input"]

    @property
    def intact(self) -> bool:
        """Whether no input was changed in place since the call."""
        return self.versions == versions_of(tensors_in(self.args, self.kwargs))


_WITH_CHANNELS = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.GroupNorm)
"""Modules whose second dimension is that of the channels."""


def time_first(module: nn.Module) -> bool:
    """Whether a module says that its first dimension is time."""
    return getattr(module, "batch_first", True) is False


def sample_dimension(module: nn.Module, shape: Sequence[int], samples: int) -> int | None:
    """The dimension of a module's input or output that runs over samples, None if there is none.

    A first dimension of n * samples holds n consecutive entries (tokens, patches) of each sample.
    """
    if time_first(module) and tuple(shape[1:2]) == (samples,):
        return 1
    if shape and (shape[0] == samples or (shape[0] > samples > 1 and shape[0] % samples == 0)):
        return 0
    return 1 if tuple(shape[1:2]) == (samples,) else None


def versions_of(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """How often each tensor was changed in place."""
    return tuple(t._version for t in tensors if not t.is_inference())
