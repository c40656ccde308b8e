"""UPD005: biases that the batch norm right after them takes out again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..manifest import TensorInfo
from ..noise import scalar
from ..run import Run
from ..wording import listed, number, plural
from .base import Detector


@dataclass(frozen=True)
class BiasBeforeNorm(Detector):
    """A bias right before a batch norm does nothing: the norm subtracts it with the mean.

    ## What it does
    Looks for linear and convolutional layers with a bias that a batch norm follows in forward order, and whose bias
    gets a gradient that is rounding, compared with that of the weight. A batch norm in evaluation mode does not
    subtract the bias; its gradient is sound then.

    ## Why it matters
    It costs memory and time, and the optimizer moves it by noise. No harm is done.

    ## What to try
    `bias=False` in layers that a batch norm follows.

    ## Options
    - `ratio` (0.0001, gradient of the bias over that of the weight; a hundred times that in half precision):
      calibrated. Biases that count are above 0.02, those that do not below 0.000001.
    - `probes` (5): fewer prove nothing.

    ## References
    - Ioffe and Szegedy 2015, section 3.2: the bias can be ignored.
    """

    code: ClassVar[str] = "UPD005"
    name: ClassVar[str] = "bias-before-batch-norm"
    severity: ClassVar[Severity] = "note"
    requires: ClassVar = {"layers": ("grad_norm",)}

    ratio: float = 1e-4
    """Gradient of the bias over that of the weight."""
    probes: int = 5
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, on all such biases."""
        pairs = _before_norms(run)
        if not pairs:
            raise NotApplicable("no layer with a trained bias stands right before a batch norm")
        ratios = {bias.name: ratio for weight, bias in pairs if (ratio := self._judged(run, weight, bias)) is not None}
        idle = {name: ratio for name, ratio in ratios.items() if ratio < self.ratio}
        if idle:
            yield self._finding(run, idle)

    def _judged(self, run: Run, weight: TensorInfo, bias: TensorInfo) -> float | None:
        """Median ratio of the gradients, over 100 in half precision; None if fewer probes than needed have both."""
        rows = run.frame("layers", "grad_norm")
        norms = [
            rows.filter(pl.col("tensor") == tensor.name).select("step", pl.col("grad_norm").alias(kind))
            for kind, tensor in (("weight", weight), ("bias", bias))
        ]
        both = norms[0].join(norms[1], on="step").drop_nulls().filter(pl.col("weight") > 0)
        if both.height < self.probes:
            return None
        ratio = scalar((both["bias"] / both["weight"]).median())
        return ratio / 100 if bias.dtype in ("float16", "bfloat16") else ratio

    def _finding(self, run: Run, idle: dict[str, float]) -> Finding:
        names = tuple(idle)
        one = len(names) == 1
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"{plural(len(names), 'bias')} ({listed(names)}) {'stands' if one else 'stand'} right before a"
            f" batch norm, which takes {'it' if one else 'them'} out again.",
            confidence=0.95,
            first_step=run.first_step,
            last_step=run.last_step,
            tensors=names,
            value=max(idle.values()),
            threshold=self.ratio,
            evidence=Evidence(
                (f"Their gradients are at most {number(max(idle.values()), 2)} times those of the weights: rounding.",)
            ),
            causes=("A layer was built with its default bias",),
            advice=("Pass bias=False to layers that a batch norm follows.",),
            chart=ChartRef("layers", "grad_norm", names),
        )


def _before_norms(run: Run) -> list[tuple[TensorInfo, TensorInfo]]:
    """Weight and bias of each layer that a batch norm follows in forward order, containers left out."""
    names = {module.name for module in run.manifest.modules}
    inner = {name.rpartition(".")[0] for name in names} | {""}
    leaves = [module for module in run.manifest.modules if module.name not in inner]
    ahead = {one.name for one, other in pairwise(leaves) if "BatchNorm" in other.type}
    trained = {t.name: t for t in run.tensors if t.module in ahead and t.requires_grad}
    return [
        (trained[f"{name}.weight"], trained[f"{name}.bias"])
        for name in (module.name for module in leaves)
        if f"{name}.weight" in trained and f"{name}.bias" in trained and len(trained[f"{name}.weight"].shape) > 1
    ]
