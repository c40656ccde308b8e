"""DAT010: rare classes that the model does not learn to predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..classes import class_table, classes_of, order, shares
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..progress import adversarial, measured, weighted
from ..run import Run
from ..wording import count, number, percent, plural
from .base import Detector


@dataclass(frozen=True, slots=True)
class _Neglected:
    """Rare classes that are seldom predicted. `share`: of the targets. `seen`, `hit`: their samples at the end, and how
    many of them were predicted. `common`: how often the most frequent class was predicted where it is the target."""

    classes: tuple[str, ...]
    share: float
    seen: float
    hit: float
    common: float


@dataclass(frozen=True)
class ClassImbalance(Detector):
    """Classes are so rare in the data that the model neglects them: it predicts the frequent ones instead.

    ## What it does
    Asks for two witnesses. *The data:* over all probes a class has less than a fifth of the share that equally frequent
    classes would have (of two classes, less than a tenth of the targets). *The model:* over the last quarter of the
    probes it predicts fewer than 60 % of the samples of those classes, significantly, but nine tenths of those of the
    most frequent class; of losses with weights, which should make up for it, fewer than a quarter. Exempt are models
    that predict one class while the batches show another (data that is not shuffled), and the tokens of sequences,
    whose frequencies differ by nature. Samplers that even out the batches leave nothing to find.

    ## Why it matters
    The loss and the accuracy look good, as both are dominated by the frequent classes; the rare ones are mostly what
    the model was built for.

    ## What to try
    Weights in the loss, or a sampler that draws the rare classes more often. Judge by balanced accuracy or by class.

    ## Options
    - `rarity` (0.2, share of a class times the number of classes): calibrated. SageMaker's ClassImbalance fires at a
      ratio of 10 between classes, on half of the healthy trainings.
    - `recall` (0.6, share of the samples of the rare classes that are predicted): a guess.
    - `recall_weighted` (0.25, the same where the loss has weights): a guess.
    - `samples` (10 samples of the rare classes at the end): fewer prove nothing.

    ## References
    - Buda et al. 2018, A systematic study of the class imbalance problem in convolutional neural networks.
    """

    code: ClassVar[str] = "DAT010"
    name: ClassVar[str] = "class-imbalance"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "class_counts", "class_hits")}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "LOS005", "CUR001", "CUR003", "GEN001", "DAT007")

    rarity: float = 0.2
    """Share of a class times the number of classes."""
    recall: float = 0.6
    """Share of the samples of the rare classes."""
    recall_weighted: float = 0.25
    """Share of the samples of the rare classes."""
    samples: int = 10
    """Samples of the rare classes at the end."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the classes are not those of the data")
        counts, hits = class_table(run), class_table(run, "class_hits", positive=False)
        spread = order(counts)
        if spread is None:
            raise NotApplicable(
                "too few batches with class labels were seen, or they hold one class, or the tokens of sequences"
            )
        if spread.sorted:
            raise NotApplicable("the batches are not shuffled: what they hold of a class is not its frequency")
        neglected = self._neglected(counts, hits, self.recall_weighted if weighted(run) else self.recall)
        if neglected is not None:
            yield self._finding(run, counts, neglected)

    def _neglected(self, counts: pl.DataFrame, hits: pl.DataFrame, limit: float) -> _Neglected | None:
        every = dict(zip(classes_of(counts), shares(counts), strict=True))
        present = {name: share for name, share in every.items() if share > 0}
        rare = tuple(name for name, share in present.items() if share * len(present) < self.rarity)
        common = max(present, key=lambda name: present[name])
        late = counts.tail(max(1, counts.height // 4))
        ends = hits.join(late.select("step"), on="step", how="semi")
        if not rare or ends.is_empty():
            return None
        seen, hit = (scalar(frame.select(pl.sum_horizontal(rare)).to_series().sum()) for frame in (late, ends))
        most = scalar(ends[common].sum()) / max(1.0, scalar(late[common].sum()))
        share = sum(present[name] for name in rare)
        if seen < self.samples or most < 0.9 or not _below(hit, seen, limit):
            return None
        return _Neglected(rare, share, seen, hit, most)

    def _finding(self, run: Run, counts: pl.DataFrame, found: _Neglected) -> Finding:
        recall = found.hit / found.seen
        which = f"Class {found.classes[0]} has" if len(found.classes) == 1 else f"{len(found.classes)} classes have"
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if recall < 0.1 else "warning",
            message=f"{which} {percent(found.share)} of the targets, and at the end the model predicts"
            f" {percent(recall)} of their samples ({percent(found.common)} of those of the most frequent class).",
            confidence=0.9 if recall < 0.25 else 0.8,
            first_step=int(counts["step"][0]),
            last_step=int(counts["step"][-1]),
            value=recall,
            threshold=self.recall,
            evidence=_evidence(run, counts, found),
            causes=("Classes of very different frequency, with a loss that counts every sample the same",),
            advice=(
                "Give the loss weights, inverse to the frequency of the classes.",
                "Or draw the rare classes more often: WeightedRandomSampler.",
                "Judge by balanced accuracy, or class by class.",
            ),
            chart=ChartRef("steps", "loss"),
        )


def _below(hit: float, seen: float, limit: float) -> bool:
    """Whether the share of hits is below the limit by two standard errors."""
    error = float((limit * (1 - limit) / seen) ** 0.5)
    return hit / seen < limit - 2 * error


def _evidence(run: Run, counts: pl.DataFrame, found: _Neglected) -> Evidence:
    every = [share for share in shares(counts) if share > 0]
    extremes = f"the most frequent has {percent(max(every))} of the targets, the rarest {percent(min(every))}"
    predicted = f"{count(round(found.hit))} of {count(round(found.seen))} samples of rare classes were predicted"
    supporting = [
        f"Of {plural(len(every), 'class')} {extremes}.",
        f"Over the last quarter of the probes {predicted}.",
    ]
    opposing = ["The loss has weights, of classes or of elements."] if weighted(run) else []
    progress = measured(run)
    if progress is not None and progress.zero is not None:
        told = f"The loss ended at {number(progress.end.value)}; that of the class frequencies alone is"
        told += f" {number(progress.zero.prior)}."
        (supporting if progress.learned < 0.3 else opposing).append(told)
    return Evidence(tuple(supporting), tuple(opposing))
