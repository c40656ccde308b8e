"""By how much the layers of a network amplify what they are given, by their weights alone."""

from __future__ import annotations

import math

import polars as pl

from .depth import of_weights, weights
from .memo import per_run
from .run import Run

_AMPLIFYING = ("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d")


@per_run
def gains(run: Run) -> dict[str, float]:
    """Root mean square of the weights times the root of their fan-in at the first probe, by name, in forward order.

    That is what a layer multiplies the root mean square of its input by. He's initialisation for ReLU has 1.4, Xavier's
    of a square matrix 1, PyTorch's default 0.6. Recurrent layers, embeddings and free parameters are left out.
    """
    norms = of_weights(run, "param_norm").filter(pl.col("step") == pl.col("step").min())
    known = dict(zip(norms["tensor"], norms["param_norm"], strict=True))
    chosen = [t for t in weights(run) if t.module_type in _AMPLIFYING and known.get(t.name) is not None]
    return {t.name: known[t.name] / math.sqrt(t.shape[0]) for t in chosen}
