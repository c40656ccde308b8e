"""DAT011: a model whose output for one sample depends on the other samples of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..outcome import suffering
from ..run import Run
from ..wording import percent
from .base import Detector

ROUNDING = 1e-3
"""Share of a gradient, by its norm, that rounding accounts for."""


@dataclass(frozen=True)
class MixedSamples(Detector):
    """What the model says of one sample depends on the other samples of its batch.

    ## What it does
    Differentiates, once a run, the output for the last sample in what the first layer made of the batch; of sequences
    whose targets are in step with the input, one position of it. All of that gradient should fall on the last sample. A
    model with batch norms in training mode, or one that knows or is given a matrix or a list of pairs of samples (a
    graph), is not looked at. If the run did well, the finding is a note: the model may compare the samples of a batch
    on purpose.

    ## Why it matters
    A dimension was mixed up: a mean, a softmax or an attention runs over the batch, `batch_first` was forgotten, or a
    `view` took the place of a `transpose`. Nothing raises an error; the model learns what happens to share a batch, and
    is another one in batches of another size.

    ## What to try
    Compute one sample alone and within a batch, in evaluation mode: the outputs must agree. Look at every `dim=`,
    `view` and `batch_first`.

    ## Options
    - `share` (0.001, of the gradient, by its norm): rounding; by definition it is zero.

    ## References
    - Karpathy, A recipe for training neural networks 2019: use backprop to chart dependencies.
    """

    code: ClassVar[str] = "DAT011"
    name: ClassVar[str] = "samples-mixed"
    severity: ClassVar[Severity] = "error"
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "LOS004", "LOS006", "GRD002", "DAT007", "GEN001", "GEN003")

    share: float = ROUNDING
    """Share of the gradient."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        known = run.frame("steps", "mixing_share", "sequence_mixing")
        largest = pl.max_horizontal(pl.col("mixing_share", "sequence_mixing").fill_nan(None))
        frame = known.select("step", share=largest).drop_nulls()
        if frame.is_empty():
            raise NotApplicable("no output of a sample was differentiated: see the audits for why")
        beyond = frame.filter(pl.col("share") > self.share)
        if beyond.is_empty():
            return
        step, share = int(beyond["step"][0]), float(beyond["share"][0])
        harm = suffering(run)
        yield Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if harm else "note",
            message=f"The output for one sample depends on the other samples of its batch: {percent(share)} of its"
            f" gradient in the first layer's output falls on them{f'; {harm}' if harm else ''}.",
            confidence=0.9 if harm else 0.6,
            first_step=step,
            last_step=run.last_step,
            value=share,
            threshold=self.share,
            unit="share",
            evidence=Evidence(
                (f"Measured at step {step}, by differentiating the output for the last sample.",),
                () if harm else ("The run did well: the samples may be compared on purpose.",),
            ),
            causes=(
                "A mean, a softmax or an attention over the dimension of the batch",
                "batch_first forgotten, or a view in place of a transpose",
            ),
            advice=(
                "Compute one sample alone and within a batch, in evaluation mode: the outputs must agree.",
                "Look at every dim=, view and batch_first between the first layer and the output.",
            ),
            chart=ChartRef("steps", "loss"),
        )
