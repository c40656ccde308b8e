"""UPD002: parameters that get gradients and a learning rate, and never change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, Severity
from ..noise import scalar
from ..outcome import suffering
from ..run import Run
from ..wires import Unmoved, unmoved
from ..wording import listed, number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class FrozenParameters(Detector):
    """Parameters that are meant to be trained stand still, to the last bit.

    ## What it does
    Looks for tensors that require a gradient, get one, and are held by an optimizer at a rate above zero, but whose
    update is exactly zero at nearly every probe while others move. In half precision it tells whether the updates are
    lost in rounding. Steps that a gradient scaler skipped, and those of another optimizer, do not count. Tensors that
    do not require a gradient, and groups with a rate of zero, are frozen on purpose.

    ## Why it matters
    The model trains, and is merely worse than it should be. No curve shows it.

    ## What to try
    Look for code that loads, copies or ties parameters within the loop, and for an optimizer that steps another copy of
    them. Keep a copy of half-precision parameters in float32.

    ## Options
    - `share` (0.95, share of the probes): MindInsight and SageMaker Debugger compare with np.allclose; here the update
      must be exactly zero.

    ## References
    - MindInsight, watchpoint weight_not_changed, which its authors switched off: it cannot know what is frozen.
    - Micikevicius et al. 2018, Mixed precision training, section 3.1: a master copy of the weights.
    """

    code: ClassVar[str] = "UPD002"
    name: ClassVar[str] = "frozen-parameters"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"layers": ("grad_norm", "update_norm")}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "STP002", "GRD002")

    share: float = 0.95
    """Share of the probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """One finding for what is lost in rounding, and one for the rest."""
        still = unmoved(run, self.share)
        for rounded in (False, True):
            found = [tensor for tensor in still if tensor.rounded is rounded]
            if found:
                yield self._finding(run, found, rounded=rounded)

    def _finding(self, run: Run, found: Sequence[Unmoved], *, rounded: bool) -> Finding:
        names = tuple(tensor.name for tensor in found)
        sizes = {tensor.name: tensor.numel for tensor in run.tensors if tensor.requires_grad}
        part = percent(sum(sizes[name] for name in names) / max(1, sum(sizes.values())))
        harm = suffering(run) if rounded else None
        why = "their updates are lost in rounding" if rounded else "each step leaves them exactly as they were"
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning" if rounded and harm is None else self.severity,
            message=f"{plural(len(names), 'tensor')} ({listed(names)}; {part} of what is to be trained) never changed,"
            f" though given gradients and a learning rate: {why}.",
            confidence=0.9,
            first_step=run.first_step,
            last_step=run.last_step,
            tensors=names,
            value=min(tensor.still for tensor in found),
            threshold=self.share,
            unit="share",
            evidence=_evidence(run, found),
            causes=_ROUNDED if rounded else _RESTORED,
            advice=_ROUNDED_ADVICE if rounded else _RESTORED_ADVICE,
            chart=ChartRef("layers", "update_norm", names[:8]),
        )


_RESTORED = (
    "They are restored or overwritten after each step",
    "The optimizer steps another copy of them",
    "An optimizer that masks them, or scales their gradient to zero",
)
_RESTORED_ADVICE = ("Look for code that copies, loads or ties parameters within the training loop.",)
_ROUNDED = ("Updates too small for the precision of the parameters (float16, bfloat16)",)
_ROUNDED_ADVICE = (
    "Keep a float32 copy of half-precision parameters, or train under autocast.",
    "Raise the learning rate, or round stochastically.",
)


def _evidence(run: Run, found: Sequence[Unmoved]) -> Evidence:
    rows = run.frame("layers", "grad_norm").filter(pl.col("tensor").is_in([tensor.name for tensor in found]))
    probes = min(tensor.probes for tensor in found)
    share = percent(min(tensor.still for tensor in found))
    return Evidence(
        (
            f"At {share} of {plural(probes, 'probe')} or more the update was zero.",
            f"Their gradients have a norm of {number(scalar(rows['grad_norm'].median()))} (median).",
        ),
        (f"Only {plural(probes, 'probe')} tell.",) * (probes < 20),
    )
