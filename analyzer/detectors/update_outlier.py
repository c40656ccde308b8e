"""UPD001: a layer that moves far more, or far less, than its peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..depth import NEARLY_ZERO
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..overshoot import harm
from ..pace import did_well
from ..phases import phases
from ..progress import adversarial, measured, uninformed
from ..run import Run
from ..wording import count, listed, number
from .base import Detector


@dataclass(frozen=True)
class UpdateOutlier(Detector):
    """A layer moves far more, or far less, than its peers, as with the wrong learning rate for its parameter group.

    ## What it does
    Compares each weight tensor's update, relative to its norm, with the median over the other tensors. *Too much:* ten
    times more than they, and a tenth of its own norm a step or more, in three probes running (or its whole norm at
    once), while its group has five times their learning rate. Without such a rate it takes thirty times more, and a
    loss that was harmed. *Too little:* a hundred times less than they in most probes, for a minority of the tensors,
    whose group has a hundredth of their rate or less, while their gradients are as large as those of the others and the
    training did not learn all there was. Biases, scales, tensors that began at (nearly) zero, frozen ones and
    embeddings that move little are left out. Fine-tuning, where most of the tensors move slowly on purpose, is fine.

    ## Why it matters
    A layer that jumps destroys what the others have learned from it; one that stands still is dead weight.

    ## What to try
    Print the learning rates of the parameter groups, and compare them with what was meant. Give all groups one rate
    first, then tune their ratios.

    ## Options
    - `decades` (1, decades above the peers): calibrated, healthy trainings had up to 0.5 where rates differed by 3.
    - `alone` (1.5, decades above the peers) where the rates are the same.
    - `size` (0.1, update over norm): MindInsight's weight_change_too_large.
    - `rate` (5, times the peers' rate).
    - `behind` (2, decades below the peers; the rate must be as far below).
    - `probes` (3 probes): fewer prove nothing.

    ## References
    - Karpathy, CS231n: ratio of updates to weights, around 1e-3. MindSpore MindInsight's watchpoints.
    """

    code: ClassVar[str] = "UPD001"
    name: ClassVar[str] = "update-outlier"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "lr"), "layers": ("update_norm", "param_norm")}
    explains: ClassVar[tuple[str, ...]] = ("STP001", "GRD002", "NUM001", "LOS001")

    decades: float = 1.0
    """Decades above the peers."""
    alone: float = 1.5
    """Decades above the peers."""
    size: float = 0.1
    """Update norm over parameter norm."""
    rate: float = 5.0
    """Times the peers' rate."""
    behind: float = 2.0
    """Decades below the peers."""
    probes: int = 3
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: their parameters need not move alike")
        moves = peers(run)
        if moves["tensor"].n_unique() < 3:
            raise NotApplicable("fewer than three weight tensors are trained: there are no peers to compare with")
        if moves["step"].n_unique() < self.probes:
            raise NotApplicable(f"fewer than {self.probes} probes have updates")
        fast = self._fast(moves)
        if fast and (finding := self._too_much(run, moves, fast)) is not None:
            yield finding
            return
        slow = self._slow(moves)
        if slow and (finding := self._too_little(run, moves, slow)) is not None:
            yield finding

    def _fast(self, moves: pl.DataFrame) -> list[str]:
        """Tensors that jump, in forward order."""
        paid = (pl.col("rate_ratio") >= self.rate) & (pl.col("decades") >= self.decades)
        alone = (pl.col("decades") >= self.alone) & ~pl.col("small")
        far = (pl.col("ratio") >= self.size) & (paid | alone)
        running = far.cast(pl.Int64).rolling_sum(self.probes, min_samples=self.probes).over("tensor") == self.probes
        return _names(
            moves.with_columns(running.fill_null(value=False).alias("run")).filter(
                pl.col("run") | (far & (pl.col("ratio") >= 1) & (pl.col("rate_ratio") >= self.rate))
            )
        )

    def _slow(self, moves: pl.DataFrame) -> list[str]:
        """Tensors that stand still though their gradients do not, in forward order."""
        limit = 10**-self.behind
        still = (pl.col("decades") <= -self.behind) & (pl.col("gradient_decades") > -1.5)
        shares = moves.group_by("tensor", maintain_order=True).agg(
            still.mean().alias("share"), pl.col("rate_ratio").median(), pl.col("sparse").first()
        )
        chosen = shares.filter((pl.col("share") >= 0.8) & (pl.col("rate_ratio") <= limit) & ~pl.col("sparse"))
        return chosen["tensor"].to_list() if 2 * chosen.height < shares.height else []

    def _too_much(self, run: Run, moves: pl.DataFrame, tensors: Sequence[str]) -> Finding | None:
        progress, phase = measured(run), phases(run)
        damage = harm(run, progress, phase) if progress is not None and phase is not None else None
        rows = moves.filter(pl.col("tensor").is_in(list(tensors)))
        rate = scalar(rows["rate_ratio"].median())
        if progress is not None and did_well(progress):
            return None
        if rate < self.rate and (damage is None or damage.recovered):
            return None
        lost = progress is None or (damage is not None and not damage.recovered) or uninformed(run, progress, 0.5)
        top = rows.filter(pl.col("ratio") >= self.size).sort("step", maintain_order=True).row(0, named=True)
        return self._finding(run, tensors, top, "error" if lost else "warning", "more")

    def _too_little(self, run: Run, moves: pl.DataFrame, tensors: Sequence[str]) -> Finding | None:
        progress = measured(run)
        if progress is None or did_well(progress):
            return None
        rows = moves.filter(pl.col("tensor") == tensors[0])
        return self._finding(run, tensors, rows.row(rows.height // 2, named=True), "warning", "less")

    def _finding(
        self, run: Run, tensors: Sequence[str], row: dict[str, float], severity: Severity, how: str
    ) -> Finding:
        factor = 10 ** abs(row["decades"])
        rates = row["rate_ratio"]
        beside = f"Its group's learning rate is {number(rates, 3)} times theirs."
        different = rates >= self.rate or rates <= 1 / self.rate
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"{listed(list(tensors))} moved by {number(row['ratio'], 2)} of the norm at step"
            f" {count(int(row['step']))}, {number(factor, 3)} times {how} than the median of the other layers."
            + (f" {beside}" if different else ""),
            confidence=0.96 if different and severity == "error" else 0.85,
            first_step=int(row["step"]) if how == "more" else run.first_step,
            last_step=run.last_step,
            tensors=tuple(tensors),
            value=row["decades"],
            threshold=self.decades if how == "more" else -self.behind,
            unit="decades",
            evidence=_evidence(run, tensors, beside, different=different),
            causes=(
                *("A wrong learning rate for this parameter group",) * different,
                "Tensors whose scale differs from that of the others",
                "A layer whose output or input is not scaled",
            ),
            advice=(
                "Print the learning rates of the parameter groups, and compare them with what was meant.",
                "Train with one rate for all groups first.",
            ),
            chart=ChartRef(
                "layers", "update_ratio", tuple(tensors)[:3], reference=self.size if how == "more" else None
            ),
        )


def peers(run: Run) -> pl.DataFrame:
    """How each trained weight tensor moved beside the others, a row per probe and tensor.

    `ratio`: update over norm; `decades`: log10 of it less the median over the others, and `gradient_decades` the same
    of the gradient; `rate_ratio`: the rate of its group over the median of theirs; `small`: began much smaller than
    they; `sparse`: an embedding. Tensors that began at nearly zero are left out, and steps with other than finite
    values; of a long run, most of the later probes.
    """
    chosen = [
        tensor for tensor in run.tensors if len(tensor.shape) >= 2 and tensor.requires_grad and tensor.group is not None
    ]
    about = pl.DataFrame(
        {
            "tensor": [tensor.name for tensor in chosen],
            "place": range(len(chosen)),
            "numel": [tensor.numel for tensor in chosen],
            "group": [tensor.group for tensor in chosen],
            "sparse": ["Embedding" in tensor.module_type for tensor in chosen],
        },
        schema={"tensor": pl.String, "place": pl.Int64, "numel": pl.Int64, "group": pl.Int64, "sparse": pl.Boolean},
    )
    size = pl.col("param_norm") / pl.col("numel").sqrt()
    rows = (
        _looked_at(run.frame("layers", "update_ratio", "grad_ratio", "param_norm"))
        .join(about, on="tensor")
        .with_columns(size.first().over("tensor", order_by="step").alias("began"))
        .filter(pl.col("began") > NEARLY_ZERO * pl.col("began").median())
        .with_columns((pl.col("began") < 0.1 * pl.col("began").median()).alias("small"))
        .filter(pl.col("update_ratio").is_finite() & (pl.col("update_ratio") > 0))
        .join(run.frame("steps", "lr"), on="step")
    )
    ratio, slope = pl.col("update_ratio").cast(pl.Float64).log10(), pl.col("grad_ratio").cast(pl.Float64).log10()
    rate = pl.col("lr").list.get(pl.col("group"), null_on_oob=True)
    return (
        rows.with_columns(rate.alias("rate"))
        .filter(pl.col("rate") > 0)
        .with_columns(
            (ratio - ratio.median().over("step")).alias("decades"),
            (slope - slope.median().over("step")).fill_nan(None).fill_null(0.0).alias("gradient_decades"),
            (pl.col("rate") / pl.col("rate").median().over("step")).alias("rate_ratio"),
        )
        .sort("place", "step")
        .select(
            "step",
            "tensor",
            pl.col("update_ratio").alias("ratio"),
            "decades",
            "gradient_decades",
            "rate_ratio",
            "small",
            "sparse",
        )
    )


def _looked_at(rows: pl.DataFrame, first: int = 200, most: int = 1000) -> pl.DataFrame:
    """The rows of the first probes, and of so many of the later ones as suffice to tell what lasts."""
    probes = rows["step"].unique().sort()
    later = probes.slice(first)
    chosen = pl.concat([probes.head(first), later.gather_every(max(1, later.len() // most))])
    return rows.filter(pl.col("step").is_in(chosen.implode()))


def _names(rows: pl.DataFrame) -> list[str]:
    return rows["tensor"].unique(maintain_order=True).to_list()


def _evidence(run: Run, tensors: Sequence[str], beside: str, *, different: bool) -> Evidence:
    norms = run.frame("layers", "param_norm").filter(
        (pl.col("tensor") == tensors[0]) & pl.col("param_norm").is_finite()
    )
    first, last = scalar(norms["param_norm"].first()), scalar(norms["param_norm"].last())
    supporting = [beside] if different else []
    if first > 0 and last > 3 * first:
        supporting.append(f"The norm of {tensors[0]} grew from {number(first, 3)} to {number(last, 3)}.")
    return Evidence(tuple(supporting), () if different else ("The learning rate is the same as that of the others.",))
