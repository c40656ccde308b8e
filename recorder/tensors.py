"""The parameter tensors of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Tensors:
    """The parameter tensors of a run, each once, in a fixed order that positions refer to."""

    names: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]

    @classmethod
    def of(cls, model: nn.Module, loss_fn: object | None) -> Tensors:
        """Those of the model, then those of the loss where it is a module with parameters of its own."""
        named = dict(model.named_parameters())
        known = {id(parameter) for parameter in named.values()}
        if isinstance(loss_fn, nn.Module):
            own = loss_fn.named_parameters(prefix="loss_fn")
            named |= {name: parameter for name, parameter in own if id(parameter) not in known}
        return cls(tuple(named), tuple(named.values()))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def device(self) -> torch.device:
        """Of the first tensor; the CPU where there is none."""
        return next((parameter.device for parameter in self.parameters), torch.device("cpu"))

    @cached_property
    def position_of(self) -> Mapping[int, int]:
        """Position of a tensor by its `id`."""
        return {id(parameter): i for i, parameter in enumerate(self.parameters)}


def readable(tensor: Tensor) -> bool:
    """Whether a tensor holds its values in plain sight: dense, not nested, not mapped over samples, not on `meta`."""
    mapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return tensor.layout == torch.strided and not (tensor.is_nested or tensor.is_meta or mapped)


def is_sharded(model: nn.Module) -> bool:
    """Whether the ranks of a process group hold parts of the parameters (FSDP, tensor parallelism)."""
    flat = any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())
    return flat or any(hasattr(parameter, "to_local") for parameter in model.parameters())  # of a DTensor
