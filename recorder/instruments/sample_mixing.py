"""Sample mixing: whether what the model says of one sample depends on the other samples of its batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..call import time_first
from ..output_hooks import OutputHooks
from ..schema import STEPS
from ..tensors import readable
from ..unnoticed import unnoticed
from .base import Instrument

if TYPE_CHECKING:
    from ..context import Context
    from ..step import Step

PROBES = 3
"""Probes after which it gives up on a model whose forward is not called, or returns no tensor."""


class SampleMixing(Instrument):
    """Differentiates the last sample's output in what the first layer made, and looks where the gradient falls.

    Not the first's: what runs over the samples in their order, as a recurrent layer does, lets it alone. Once a run: it
    is the program that mixes samples, not a batch. Batch norms do so on purpose in training mode, and graphs have their
    neighbours: a model with either is not looked at. (Karpathy, A recipe for training neural networks, 2019: use
    backprop to chart dependencies.)
    """

    name = "sample-mixing"
    columns = (STEPS["mixing_share"],)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = OutputHooks()
        self._first: Tensor | None = None
        self._output: Tensor | None = None
        self._looked = not context.hooks
        self._probes = 0
        if not context.hooks:
            self.explain("compiled")

    def begin(self, step: Step) -> None:
        """Watch the forward pass, unless one was looked at before."""
        self.end(step)
        if self._looked:
            return
        for module in self.context.model.modules():
            if not any(module.children()) and any(True for _ in module.parameters()):
                self._hooks.place(module, self._note_first)
        self._hooks.place(self.context.model, self._note_output)

    def before_backward(self, step: Step) -> None:
        """The forward pass is over, and its graph is there."""
        first, output = self._first, self._output
        if self._looked:
            return
        self._probes += 1
        if first is None or output is None:
            if self._probes == PROBES:
                self._looked = True
                self.explain("no layer with parameters was called within the model's forward, with one tensor returned")
            return
        self._looked = True
        inputs = step.micro_batch.inputs if step.micro_batch else ()
        reason = _obstacle(self.context.model, inputs, first, output)
        if reason:
            self.explain(reason)
            return
        try:
            with unnoticed(self.context, output, recompute=False), torch._C.DisableTorchFunction():
                (found,) = torch.autograd.grad(output[-1].float().sum(), first, retain_graph=True, allow_unused=True)
        except RuntimeError as error:  # hooks that would be called, a graph that is gone
            self.explain(str(error))
            return
        if found is None:
            self.explain("the output does not depend on the layer that is called first")
        else:
            step.put("mixing_share", share_beyond(found, 0, slice(len(found) - 1, None)))

    def leave(self, step: Step) -> None:
        self._hooks.remove()

    def end(self, step: Step) -> None:
        """Let go of the graph."""
        self._first = self._output = None
        self._hooks.close()

    def _note_first(self, module: nn.Module, output: Tensor) -> None:
        if self._first is None and _differentiated(output):
            self._first = output

    def _note_output(self, module: nn.Module, output: Tensor) -> None:
        if self._output is None and _differentiated(output) and not output.is_complex():
            self._output = output


def _differentiated(output: object) -> bool:
    return isinstance(output, Tensor) and output.requires_grad and readable(output)


def share_beyond(gradient: Tensor, dim: int, own: slice) -> Tensor:
    """Share of a gradient, by its norm, that falls on other entries along a dimension than its `own`, 0-d."""
    gradient = torch.view_as_real(gradient) if gradient.is_complex() else gradient
    squares = gradient.detach().float().square().movedim(dim, 0).flatten(1).sum(1)
    beyond = squares.clone()
    beyond[own] = 0
    return (beyond.sum() / squares.sum().clamp_min(torch.finfo(squares.dtype).tiny)).sqrt()


def related(tensor: Tensor, samples: int) -> bool:
    """Whether a tensor can be a graph whose nodes are the samples: a matrix of pairs of them, or a list."""
    pairs = tuple(tensor.shape) == (samples, samples)
    edges = tensor.dim() == 2 and 2 in tensor.shape and not tensor.is_floating_point() and len(tensor) != samples
    return tensor.layout != torch.strided or pairs or edges


def _obstacle(model: nn.Module, inputs: Sequence[Tensor], first: Tensor, output: Tensor) -> str:
    """Why nothing can be said; empty if something can."""
    samples = output.shape[0] if output.dim() else 0
    if samples < 2 or first.dim() < 2 or first.shape[0] != samples:
        return "the first dimension of the output, or of the first layer's, does not run over the samples"
    by_time = any(time_first(module) for module in model.modules())
    if (by_time and output.dim() > 2) or (by_time and first.shape[1] == samples):
        return "the first dimension of the output may be that of time"
    if any(isinstance(module, _BatchNorm) and module.training for module in model.modules()):
        return "batch norms mix the samples of a batch on purpose"
    if any(related(buffer, samples) for buffer in model.buffers()):
        return "the model holds a matrix that relates the samples to each other"
    if any(related(tensor, samples) for tensor in inputs):
        return "the model is given what relates the samples to each other"
    return ""
