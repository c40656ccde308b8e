"""What the Takeuchi information criterion is made of (Takeuchi 1976; Thomas et al. 2019): noise over curvature.

Squares of individual gradients, and the diagonal of the generalized Gauss-Newton matrix (GGN) of the batch's loss by
the same route: a random gradient of the prediction, whose covariance is the Hessian of the loss there, goes back
through the graph before the user's own backward pass; the second moments of what the samples add to each layer's
gradient are then the diagonal, in expectation. Where batch norm couples the samples, both are of their contributions to
the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..call import Call
from ..context import Context
from ..output_curvature import NoCurvature, influences, prediction_of, random_gradient
from ..passes import Pass, Passes
from ..random_signs import own_generator, random_signs
from ..samplewise import ELEMENTS
from ..schema import LAYERS, STEPS
from ..second_moments import SecondMoments, second_moments
from ..step import Step
from ..unnoticed import unnoticed
from .base import Instrument

_COLUMNS = ("grad_square", "ggn_trace", "tic_sum", "tic_count")


class TakeuchiInformation(Instrument):
    """Mean squared individual gradients over the diagonal of the GGN, and the trace of the GGN."""

    name = "takeuchi-information"
    columns = (
        STEPS["ggn_trace"],
        STEPS["tic_sum"],
        STEPS["tic_count"],
        *(LAYERS[column] for column in _COLUMNS),
    )
    sparse = True
    needs_layers = True
    DRAWS = 1
    """Random gradients a probe."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._random = own_generator(context.tensors.device)
        self._drawn: list[dict[Call, dict[int, Tensor]]] = []
        self._curvature: dict[int, SecondMoments] = {}

    def wants(self, index: int, probed: bool) -> bool:
        return probed and not self.context.capture.hopeless

    def begin(self, step: Step) -> None:
        self.context.capture.keeps_edges = True
        self.context.passes.moments = []

    def before_backward(self, step: Step) -> None:
        """For each draw, the gradients that the layers' outputs get from random gradients of the prediction."""
        if step.loss_graph is None or not step.loss_graph.requires_grad:
            return
        try:
            with unnoticed(self.context, step.loss_graph):
                self._draw(step.loss_graph, step)
        except NoCurvature as reason:
            self.explain(str(reason))
        except (RuntimeError, NotImplementedError) as error:  # of an operation of the model, not of ours
            self.explain(f"the loss cannot be differentiated once more: {str(error).splitlines()[0]}")

    def _draw(self, loss: Tensor, step: Step) -> None:
        if not step.loss_calls:
            raise NoCurvature("no known loss function was seen")
        parts = influences(loss, step.loss_calls)
        draws = [[random_gradient(call, weight, self._signs) for call, weight in parts] for _ in range(self.DRAWS)]
        self._drawn = self.context.capture.propagated([prediction_of(call) for call, _ in parts], draws)

    def _signs(self, like: Tensor) -> Tensor:
        return random_signs(like.shape, like, self._random)

    def after_backward(self, step: Step) -> None:
        """Square what the samples add, now that the plan knows all layers, and let go of it.

        Of several micro-batches the first stands for all.
        """
        drawn, self._drawn = self._drawn, []
        passes = self.context.passes
        if not drawn or passes.usable is None:
            return
        of_draws = Passes(passes.plan, [_with_gradients(passes.passes[0], each) for each in drawn])
        self._curvature = {m.position: m for m in second_moments(of_draws, self.context.values_at_calls())}
        passes.plan = of_draws.plan

    @torch.no_grad()
    def collect(self, step: Step) -> None:
        passes = self.context.passes
        if not self._curvature:
            return
        moments = list(second_moments(passes, self.context.values_at_calls()))
        rows: dict[int, Sequence[Tensor]] = {}
        for some in _together([m for m in moments if m.position in self._curvature and m.square.numel()]):
            rows |= noise_over_curvature(some, self._curvature, passes.samples, step.scale)
        if passes.usable is None or not rows:
            return
        positions = tuple(sorted(rows))
        for i, column in enumerate(_COLUMNS):
            step.put_tensors(column, [rows[p][i] for p in positions], positions)

    def end(self, step: Step) -> None:
        self._drawn, self._curvature = [], {}


def noise_over_curvature(
    moments: Sequence[SecondMoments], curvature: Mapping[int, SecondMoments], samples: int, scale: Tensor | None = None
) -> dict[int, tuple[Tensor, ...]]:
    """By position of the tensor, 0-d each: mean squared norm of the individual gradients, trace of the GGN, the sum of
    mean square over the GGN's diagonal, and the number of entries in it: those where the diagonal is above rounding.
    """
    factor = 1.0 if scale is None else 1 / scale
    sizes = [m.square.numel() for m in moments]
    square = torch.cat([(m.square * (samples**2 / m.count)).flatten() for m in moments]) * factor**2
    of_draws = [curvature[m.position] for m in moments]
    diagonal = torch.cat([(h.square * (samples / h.count)).flatten() for h in of_draws])
    least = (64 * torch.finfo(diagonal.dtype).eps) ** 2
    floors = torch.cat([part.max().mul(least).expand(len(part)) for part in diagonal.split(sizes)])
    counted = diagonal > floors
    ratio = torch.where(counted, square / diagonal, 0.0)
    values = (square, diagonal, ratio, counted.to(square.dtype))
    sums = [[part.sum() for part in value.split(sizes)] for value in values]
    return {m.position: row for m, row in zip(moments, zip(*sums, strict=True), strict=True)}


def _with_gradients(one: Pass, gradients: Mapping[Call, dict[int, Tensor]]) -> Pass:
    """A pass with other gradients of the outputs."""
    calls = [call for each in one.calls.values() for call in each]
    return Pass.of([replace(c, gradients=gradients[c]) for c in calls if c in gradients], one.samples, one.kept)


def _together(moments: Sequence[SecondMoments]) -> Iterator[list[SecondMoments]]:
    """In groups of a limited size: on small tensors it is the operations that cost."""
    waiting: list[SecondMoments] = []
    for each in moments:
        waiting.append(each)
        if sum(m.square.numel() for m in waiting) > ELEMENTS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
