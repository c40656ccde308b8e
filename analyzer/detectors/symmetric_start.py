"""UPD003: weights that begin as zero, or with all units alike, and never get away from there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..absence import why_not_applicable
from ..depth import of_weights, weights
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..outcome import suffering
from ..pace import did_well
from ..progress import measured
from ..run import Run
from ..wires import leaves_of
from ..wording import listed, number, percent, plural
from .base import Detector


@dataclass(frozen=True)
class SymmetricStart(Detector):
    """The units of a layer begin alike, and so stay alike: the layer is no better than a single unit.

    ## What it does
    Compares each weight with what it would be if all its rows (the units) were the mean row. It fires if they were
    equal at the first step of the run, zero or not, and still are over the last quarter of it; or if half of the
    weights or more began equal and not zero, and came apart only since, in a run that did not do well. Weights that
    begin at zero and leave it, as those of adapters, of residual branches and of a last layer do, are healthy; so are
    frozen ones, embeddings, and what no loss reaches.

    ## Why it matters
    Units with the same weights, and the same weights above them, get the same gradient for ever. If several layers
    begin at zero, no gradient passes at all.

    ## What to try
    Initialise at random: He for ReLU, Xavier for tanh and sigmoid. Only biases, and the last layer of a residual
    branch, may begin at zero.

    ## Options
    - `alike` (1e-05, share of the squared norm that is not that of the mean row): rounding in float32. Calibrated: of
      random weights it is above 0.8, of equal ones below 0.000002.
    - `apart` (0.01, the same share): more at the end means that the units found their ways.
    - `learned` (0.8, share of what there was to learn): a run that learned more is a note.
    - `probes` (10): fewer prove nothing.

    ## References
    - Goodfellow, Bengio, Courville 2016, Deep Learning, section 8.4. MindInsight, watchpoint weight_initialization.
    """

    code: ClassVar[str] = "UPD003"
    name: ClassVar[str] = "initialisation-zero-or-symmetric"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"layers": ("param_norm",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "GRD002", "STP001", "STP002", "ACT001")

    alike: float = 1e-5
    """Share of the squared norm."""
    apart: float = 0.01
    """Share of the squared norm."""
    learned: float = 0.8
    """Share of what there was to learn."""
    probes: int = 10
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, on all weights that it holds for."""
        if run.attempts[0].first_step != 0:
            raise NotApplicable("the run is continued: how its weights began is not known")
        known = [tensor.name for tensor in weights(run) if tensor.group is not None and tensor.shape[0] > 1]
        unreached = {leaf.name for leaf in leaves_of(run) if not leaf.reached}
        trained = [name for name in known if name not in unreached]
        frame = _alike(run, trained)
        if frame.is_empty():
            raise NotApplicable(why_not_applicable(run, "layers", "mean_row_norm"))
        judged = frame.group_by("tensor", maintain_order=True).agg(
            pl.col("spread").first().alias("start"),
            pl.col("spread").slice(1, 1).first().alias("next"),
            pl.col("spread").tail(pl.max_horizontal(pl.len() // 4, 3)).max().alias("end"),
            pl.col("param_norm").first().alias("size"),
            pl.len().alias("probes"),
        )
        found = judged.filter(
            (pl.col("probes") >= self.probes) & (pl.col("start") <= self.alike) & (pl.col("end") <= self.apart)
        )
        equal = (pl.col("start") <= self.alike) & (pl.col("next") <= self.apart / 10)
        late = judged.filter(equal & (pl.col("size") > 0))
        if not found.is_empty():
            yield self._finding(run, found)
        elif judged.height <= 2 * late.height and not _did_well(run):
            yield self._late(run, late)

    def _late(self, run: Run, found: pl.DataFrame) -> Finding:
        names = tuple(found["tensor"])
        apart = percent(scalar(found["end"].median()))
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning",
            message=f"{plural(len(names), 'weight')} ({listed(names)}) began equal in all rows, and came apart only by"
            f" what differs between the units beside them.",
            confidence=0.7,
            first_step=run.first_step,
            last_step=run.last_step,
            tensors=names,
            value=scalar(found["start"].max()),
            threshold=self.alike,
            unit="share",
            evidence=Evidence(
                ("Until then all units of such a layer did the same.",),
                (f"At the end their rows differ by {apart} of the squared norm.",),
            ),
            causes=_CONSTANT,
            advice=_ADVICE,
            chart=ChartRef("layers", "param_norm", names),
        )

    def _finding(self, run: Run, found: pl.DataFrame) -> Finding:
        names = tuple(found["tensor"])
        zero = int((found["size"] == 0).sum())
        progress, harm = measured(run), suffering(run, learned=0.5)
        well = harm is None and progress is not None and progress.learned >= self.learned
        what = "zero" if zero == len(names) else f"zero ({zero} of them) or equal in all rows" if zero else _EQUAL
        return Finding(
            code=self.code,
            name=self.name,
            severity="note" if well else "warning" if harm is None else self.severity,
            message=f"{plural(len(names), 'weight')} ({listed(names)}) began as {what} and stayed so: all units of such"
            f" a layer do the same{f'; {harm}' if harm else ''}.",
            confidence=0.5 if well else 0.98,
            first_step=run.first_step,
            last_step=run.last_step,
            tensors=names,
            value=scalar(found["end"].max()),
            threshold=self.apart,
            unit="share",
            evidence=_evidence(run, found, harm, well=well),
            causes=(
                "Weights initialised with zero",
                "Weights initialised with one constant",
            )
            if zero
            else _CONSTANT,
            advice=_ADVICE,
            chart=ChartRef("layers", "param_norm", names),
        )


_EQUAL = "equal in all rows"
_CONSTANT = ("Weights initialised with one constant", "Rows that were copied from one another")
_ADVICE = (
    "Initialise weights at random: He (ReLU), Xavier (tanh, sigmoid), or leave PyTorch's default.",
    "Begin at zero only with biases, and with the last layer of a residual branch.",
)


def _did_well(run: Run) -> bool:
    progress = measured(run)
    return progress is None or did_well(progress)


def _alike(run: Run, names: list[str]) -> pl.DataFrame:
    """`tensor`, `step`, `param_norm` and `spread`: the share of the squared norm by which its rows differ.

    Zero for a tensor that is zero, which is known without the mean row as well.
    """
    share = 1 - (pl.col("mean_row_norm").cast(pl.Float64) / pl.col("param_norm").cast(pl.Float64)).pow(2)
    spread = pl.when(pl.col("param_norm") == 0).then(0.0).otherwise(share.clip(0.0))
    frame = of_weights(run, "param_norm", "mean_row_norm").filter(pl.col("tensor").is_in(names))
    return frame.with_columns(spread.alias("spread")).filter(pl.col("spread").is_finite())


def _evidence(run: Run, found: pl.DataFrame, harm: str | None, *, well: bool) -> Evidence:
    differ = percent(scalar(found["end"].max()))
    supporting = [f"Over the last quarter of the run their rows differ by at most {differ} of the squared norm."]
    rows = of_weights(run, "grad_norm").filter(pl.col("tensor").is_in(list(found["tensor"])))
    norms = rows["grad_norm"].drop_nulls()
    if norms.len() and (norms == 0).all():
        supporting.append("Not one gradient of theirs was different from zero.")
    elif norms.len():
        supporting.append(f"They do get gradients (median norm {number(scalar(norms.median()))}).")
    if harm:
        supporting.append(f"How the run fared: {harm}.")
    return Evidence(tuple(supporting), ("The run learned nearly all there was to learn.",) * well)
