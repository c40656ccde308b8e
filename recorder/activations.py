"""The activations whose units can get stuck: modules, and the functions that forward passes call instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which values a unit answers to its input; at or beyond one of them on all samples it is stuck there."""

    name: str
    low: float
    high: float
    low_is_dead: bool
    """Whether stuck at the lower end means that nothing passes on (dead) rather than saturated."""


_RELU = Bounds("relu", 0.0, math.inf, low_is_dead=True)
_RELU6 = Bounds("relu6", 0.0, 6.0, low_is_dead=True)
_HARDTANH = Bounds("hardtanh", -1.0, 1.0, low_is_dead=False)
_HARDSIGMOID = Bounds("hardsigmoid", 0.0, 1.0, low_is_dead=False)
_TANH = Bounds("tanh", -0.99, 0.99, low_is_dead=False)
_SIGMOID = Bounds("sigmoid", 0.01, 0.99, low_is_dead=False)
"""The soft ones count as stuck where their slope is below a twentieth of the steepest."""

ACTIVATIONS: Mapping[type[nn.Module], Bounds] = {
    nn.ReLU: _RELU,
    nn.ReLU6: _RELU6,
    nn.Hardtanh: _HARDTANH,
    nn.Hardsigmoid: _HARDSIGMOID,
    nn.Tanh: _TANH,
    nn.Sigmoid: _SIGMOID,
}
ACTIVATION_FUNCTIONS: Mapping[Callable[..., Any], Bounds] = {
    function: bounds
    for bounds, functions in (
        (_RELU, (torch.relu, torch.relu_, F.relu, F.relu_, Tensor.relu, Tensor.relu_)),
        (_RELU6, (F.relu6,)),
        (_HARDTANH, (F.hardtanh, F.hardtanh_)),
        (_HARDSIGMOID, (F.hardsigmoid,)),
        (_TANH, (torch.tanh, torch.tanh_, F.tanh, Tensor.tanh, Tensor.tanh_)),
        (_SIGMOID, (torch.sigmoid, torch.sigmoid_, F.sigmoid, Tensor.sigmoid, Tensor.sigmoid_)),
    )
    for function in functions
}
