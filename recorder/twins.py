"""What each sample adds to the gradient of one layer, by BackPACK's rules on a detached twin.

A twin shares the layer's settings and holds the input and the output gradient of one call. Nothing is extended or
hooked, so that the model never notices. BackPACK: Dangel, Kunstner & Hennig, ICLR 2020.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F  # noqa: N812
from backpack.core.derivatives.conv1d import Conv1DDerivatives
from backpack.core.derivatives.conv2d import Conv2DDerivatives
from backpack.core.derivatives.conv3d import Conv3DDerivatives
from backpack.core.derivatives.conv_transpose1d import ConvTranspose1DDerivatives
from backpack.core.derivatives.conv_transpose2d import ConvTranspose2DDerivatives
from backpack.core.derivatives.conv_transpose3d import ConvTranspose3DDerivatives
from backpack.core.derivatives.convnd import weight_jac_t_save_memory
from torch import Tensor, nn

RULES: Mapping[Callable[..., Any], Any] = {
    nn.Conv1d.forward: Conv1DDerivatives(),
    nn.Conv2d.forward: Conv2DDerivatives(),
    nn.Conv3d.forward: Conv3DDerivatives(),
    nn.ConvTranspose1d.forward: ConvTranspose1DDerivatives(),
    nn.ConvTranspose2d.forward: ConvTranspose2DDerivatives(),
    nn.ConvTranspose3d.forward: ConvTranspose3DDerivatives(),
}
"""BackPACK's derivatives by the forward operation they belong to."""


def has_rule(module: nn.Module) -> bool:
    """Whether BackPACK's rule for this module holds: it does not know of padding added to one side of the output."""
    return type(module).forward in RULES and not any(getattr(module, "output_padding", ()))


def by_twin(module: nn.Module, x: Tensor, gradient: Tensor) -> Tensor:
    """What each entry of the batch adds to the gradient of the weight, (n, *shape of the weight).

    `x`, `gradient`: input and output gradient of one call, (n, ...).
    """
    twin, x = _twin(module, x)
    twin.input0, twin.output = x, gradient
    with weight_jac_t_save_memory(save_memory=True):
        found: Tensor = RULES[type(module).forward].param_mjp(
            "weight", twin, None, (gradient,), gradient, sum_batch=False
        )
    return found


def _twin(module: nn.Module, x: Tensor) -> tuple[Any, Tensor]:
    """A shallow copy of the layer, and its input.

    BackPACK knows padding by zeros in numbers only, so others are done here.
    """
    twin: Any = copy.copy(module)
    padding = getattr(module, "padding", None)
    if padding is None or (getattr(module, "padding_mode", "zeros") == "zeros" and not isinstance(padding, str)):
        return twin, x
    mode = "constant" if module.padding_mode == "zeros" else str(module.padding_mode)
    twin.padding = tuple(0 for _ in twin.kernel_size)
    return twin, F.pad(x, twin._reversed_padding_repeated_twice, mode=mode)
