"""ACT004: a model that trains in evaluation mode: batch norms use frozen statistics, dropout does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..manifest import ModuleInfo
from ..noise import scalar
from ..outcome import suffering
from ..run import Run
from ..wording import count, listed, percent, plural
from .base import Detector


@dataclass(frozen=True)
class TrainingMode(Detector):
    """Steps of the training are made in evaluation mode.

    ## What it does
    Looks, at every probe, at the share of the modules that are in training mode, and at the mode of each batch norm.
    It fires if the model has dropout, or batch norms whose parameters are trained, and all of it (or such a batch norm)
    is in evaluation mode: *left*, after it had begun in training mode, typically after a validation pass; or *never* in
    training mode at all. A part that was in evaluation mode from the start, such as a backbone with frozen statistics,
    is meant so.

    ## Why it matters
    Batch norms then normalise by statistics that are no longer updated, and dropout does not regularise.

    ## What to try
    Call `model.train()` at the beginning of every epoch, not once before the loop; `model.eval()` only around
    validation. Keep only those modules in evaluation mode that are frozen.

    ## Options
    - `persistence` (0.9, share of the probes since then): a guess. Without the fault it is 0.
    - `probes` (5, in evaluation mode): fewer may be a pass that does not train.

    ## References
    - Full Stack Deep Learning, Troubleshooting: the five most common bugs. torch.nn.Module.eval, documentation.
    """

    code: ClassVar[str] = "ACT004"
    name: ClassVar[str] = "trains-in-evaluation-mode"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("training_share",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "NUM001", "STP001", "GRD001", "GRD002", "ACT001")

    persistence: float = 0.9
    """Share of the probes."""
    probes: int = 5
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        norms, drops = _trained_norms(run), [item for item in run.manifest.modules if "Dropout" in item.type]
        if not norms and not drops:
            raise NotApplicable("no dropout and no trained batch norm: both modes of the model are the same")
        share = run.frame("steps", "training_share").drop_nulls()
        whole = self._since(share.select("step", (pl.col("training_share") == 0).alias("off")))
        if whole is not None:
            yield self._finding(run, whole, share["step"][0], [*norms, *drops], has_norms=bool(norms))
            return
        left = {name: since for name in norms if (since := self._since(_mode(run, name.name))) is not None}
        left = {name: since for name, since in left.items() if since > share["step"][0]}
        if left:
            yield self._finding(run, min(left.values()), share["step"][0], list(left), has_norms=True)

    def _since(self, modes: pl.DataFrame) -> int | None:
        """The first step in evaluation mode, if nearly all probes after it are; None if not."""
        off = modes.filter("off")
        if off.height < self.probes:
            return None
        first = int(off["step"][0])
        after = modes.filter(pl.col("step") >= first)
        return first if scalar(after["off"].mean()) >= self.persistence else None

    def _finding(self, run: Run, since: int, begin: int, affected: list[ModuleInfo], *, has_norms: bool) -> Finding:
        never = since <= begin
        harm = suffering(run)
        # Dropout that was never switched on is as if it were not there: nothing is wrong but the intention.
        severity: Severity = "note" if never and not has_norms else "warning" if harm is None else self.severity
        when = "at no step in training mode" if never else f"in evaluation mode from step {count(since)} on"
        kinds = listed(sorted({item.type for item in affected}))
        passes = [event.step for event in run.events_of("evaluation") if event.step is not None and event.step <= since]
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"The training goes on, but {plural(len(affected), 'module')} ({kinds}) of the model"
            f" {'was' if len(affected) == 1 else 'were'} {when}{f'; {harm}' if harm else ''}.",
            confidence=0.8 if never else 0.95,
            first_step=since,
            last_step=run.last_step,
            value=0.0,
            threshold=1.0,
            unit="share",
            evidence=_evidence(run, since, passes, harm, never=never),
            causes=(
                ("model.train() is never called, after loading or building the model in evaluation mode",)
                if never
                else ("model.eval() for validation, without model.train() after it",)
            )
            + ("Evaluation mode on purpose, to keep the statistics of a pretrained model",),
            advice=(
                "Call model.train() at the beginning of every epoch, and after every validation.",
                "If statistics are to stay frozen: put only those modules into evaluation mode, and freeze them.",
            ),
            chart=ChartRef("steps", "training_share"),
        )


def _trained_norms(run: Run) -> list[ModuleInfo]:
    """Batch norms with parameters that an optimizer trains, or with none."""
    frozen = {t.module for t in run.tensors if not t.requires_grad or t.group is None}
    return [item for item in run.manifest.modules if "BatchNorm" in item.type and item.name not in frozen]


def _mode(run: Run, module: str) -> pl.DataFrame:
    rows = run.frame("modules", "training").filter((pl.col("module") == module) & pl.col("training").is_not_null())
    return rows.select("step", (~pl.col("training")).alias("off"))


def _evidence(run: Run, since: int, passes: list[int], harm: str | None, *, never: bool) -> Evidence:
    share = run.frame("steps", "training_share").drop_nulls().filter(pl.col("step") >= since)["training_share"]
    supporting = [f"Share of the modules in training mode from there on: {percent(scalar(share.median()))} (median)."]
    if passes and not never:
        supporting.append(f"An evaluation pass stands right before it, at step {count(passes[-1])}.")
    return Evidence(tuple(supporting), ("The loss shows no harm.",) * (harm is None))
