"""Curvature of the batch's loss: traces of the Hessian's blocks, and its largest eigenvalue.

From Hessian-vector products on the graph that the user is about to differentiate, which stays as it is. Of several
micro-batches the first is looked at, and stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..context import Context
from ..hessian import Hessian, block_traces, largest_eigenvalue
from ..random_signs import own_generator, random_signs
from ..schema import LAYERS, STEPS
from ..step import Step
from ..unnoticed import unnoticed
from .base import Instrument


class Curvature(Instrument):
    """What both have in common: their schedule, a generator of their own, and the parameters they look at."""

    sparse = True
    needs_layers = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._random = own_generator(context.tensors.device)
        self._measured: tuple[Tensor, tuple[int, ...]] | None = None

    def before_backward(self, step: Step) -> None:
        held = self.context.held()
        pairs = enumerate(self.context.tensors.parameters)
        positions = tuple(
            i for i, p in pairs if p.requires_grad and p.is_floating_point() and id(p) in held and p.numel()
        )
        if step.loss_graph is None or not positions:
            return
        try:
            parameters = [self.context.tensors.parameters[i] for i in positions]
            with unnoticed(self.context, step.loss_graph, parameters):
                if step.hessian is None:
                    step.hessian = Hessian(step.loss_graph, parameters)
                self._measured = self.measure(step.hessian), positions
        except (RuntimeError, NotImplementedError) as error:  # of an operation of the model, not of ours
            self.explain(f"the loss cannot be differentiated twice: {str(error).splitlines()[0]}")

    def after_backward(self, step: Step) -> None:
        if self._measured is not None:
            values, positions = self._measured
            self.put(step, values * _times_the_first([batch.samples for batch in step.micro_batches]), positions)

    def end(self, step: Step) -> None:
        self._measured = None

    def measure(self, hessian: Hessian) -> Tensor:
        """Numbers (n,) that are proportional to the Hessian."""
        raise NotImplementedError

    def put(self, step: Step, values: Tensor, positions: tuple[int, ...]) -> None:
        """Put them into the step's row. `positions`: of the tensors that the Hessian is taken in."""
        raise NotImplementedError


class HessianTrace(Curvature):
    """Trace of the Hessian's block of each tensor, by Hutchinson's estimate."""

    name = "hessian-trace"
    columns = (LAYERS["hess_trace"], STEPS["hess_trace"])
    VECTORS = 1
    """Random vectors a probe. What one misses, the mean over probes has: they cost as much as half a step each."""

    def measure(self, hessian: Hessian) -> Tensor:
        size, some = sum(hessian.sizes), self.context.tensors.parameters[0]
        signs = (random_signs((size,), some, self._random) for _ in range(self.VECTORS))
        return block_traces(hessian.__matmul__, hessian.sizes, signs)

    def put(self, step: Step, values: Tensor, positions: tuple[int, ...]) -> None:
        step.put_tensors("hess_trace", list(values.unbind()), positions)


class LargestEigenvalue(Curvature):
    """Largest algebraic eigenvalue of the Hessian by Lanczos, started from the last probe's eigenvector."""

    name = "largest-eigenvalue"
    columns = (STEPS["hess_max_ev"], STEPS["hess_max_ev_residual"])
    ITERATIONS = 5
    """Hessian-vector products a probe."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._last: Tensor | None = None

    def measure(self, hessian: Hessian) -> Tensor:
        size, some = sum(hessian.sizes), self.context.tensors.parameters[0]
        if self._last is None or len(self._last) != size:
            self._last = torch.randn(size, generator=self._random, device=some.device, dtype=some.dtype)
        value, vector, residual = largest_eigenvalue(hessian.__matmul__, self._last, self.ITERATIONS)
        finite = torch.isfinite(vector).all()
        self._last = torch.where(finite, vector, self._last)
        return torch.stack([value, residual])

    def put(self, step: Step, values: Tensor, positions: tuple[int, ...]) -> None:
        step.put("hess_max_ev", values[0])
        step.put("hess_max_ev_residual", values[1])


def _times_the_first(samples: Sequence[int | None]) -> float:
    """How many times the first micro-batch is all of them, by samples where those are known."""
    known = [each for each in samples if each]
    return sum(known) / known[0] if len(known) == len(samples) else float(len(samples))
