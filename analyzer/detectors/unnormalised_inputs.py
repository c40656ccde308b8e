"""DAT001: inputs whose scale is far from one, and a training that suffers from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl

from ..depth import of_weights, weights
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..overshoot import Harm, broken, harm
from ..pace import did_well
from ..phases import phases
from ..progress import Progress, adversarial, measured, uninformed
from ..run import Run
from ..starts import WideStart, wide_start
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True, slots=True)
class _Scale:
    """Of the model's input, medians over the probes. `kind` is what is wrong with it, `size` its root mean square."""

    kind: str
    mean: float
    std: float
    absmax: float
    size: float


@dataclass(frozen=True)
class UnnormalisedInputs(Detector):
    """The inputs are not scaled: their values are far from one, and the training suffers from it.

    ## What it does
    Asks for two witnesses. *The inputs:* over the probes the median of their root mean square is above 10, or they are
    far from zero beside their spread, or none of them reaches a tenth. *The training:* the outputs were far too large
    before the first update, the loss was thrown off for good, or less than half of what there is to learn was learned.
    Sizes between 10 and 30 must also show in the gradients of the first layer, relative to its weights, beside those of
    the others; far beyond that the inputs alone are worth a warning. A model whose first layer normalises is exempt, as
    is one that does well. Features whose scales differ
    are evidence only: pixels at the rim of an image hardly vary either.

    ## Why it matters
    The gradient of the first layer is proportional to its input. With inputs a hundred times too large any sensible
    rate is too large there, activations saturate and units die; with inputs too small the layer hardly learns.

    ## What to try
    Subtract the mean and divide by the standard deviation of each feature, both computed on the training data. Divide
    images by 255 once.

    ## Options
    - `size` (10, root mean square): calibrated, healthy trainings had 0.1 to 8 (digits of 0 to 16).
    - `least` (0.1, largest magnitude): a guess; sparse rows of unit length have larger entries.
    - `offset` (5, mean over standard deviation): a guess. Images in [0, 1] have 0.4 to 2.
    - `outlier` (10, times the median of the other layers): calibrated, healthy first layers had 0.1 to 1.
    - `learned` (0.5, share of the loss of a model that knows nothing, or of the first loss).
    - `enormous` (100, root mean square): enough by itself for a warning.

    ## References
    - LeCun et al. 1998, Efficient BackProp, section 4.3. UMLAUT and SageMaker's CheckInputImages look at the inputs
      alone, and fire on most healthy trainings.
    """

    code: ClassVar[str] = "DAT001"
    name: ClassVar[str] = "unnormalised-inputs"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss", "input_mean", "input_std", "input_absmax")}
    explains: ClassVar[tuple[str, ...]] = (
        "NUM001", "LOS001", "LOS002", "LOS003", "LOS004", "LOS005", "LOS006", "STP001", "STP002", "STP005", "GRD001",
        "GRD002", "UPD001", "UPD004", "ACT001", "ACT002", "CUR001", "CUR002", "DAT007",
    )  # fmt: skip

    size: float = 10.0
    """Root mean square of the inputs."""
    least: float = 0.1
    """Largest magnitude of the inputs."""
    offset: float = 5.0
    """Mean over standard deviation."""
    outlier: float = 10.0
    """Relative gradient of the first layer over the median of the others."""
    learned: float = 0.5
    """Share of the loss."""
    enormous: float = 100.0
    """Root mean square of the inputs."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: the input is now of one model, now of another")
        if normalises_first(run):
            raise NotApplicable("the model normalises its inputs itself")
        scale, progress, phase = self._scale(run), measured(run), phases(run)
        if scale is None or not scale.kind:
            return
        if progress is None:
            yield from self._broken(run, scale)
            return
        wide = wide_start(run)
        damage = harm(run, progress, phase) if phase else None
        little = progress.learned < self.learned or bool(uninformed(run, progress))
        ratio = first_layer(run)
        if (wide or damage or little) and self._reaches(scale, wide, ratio):
            yield self._judged(run, scale, progress, wide, damage)
        elif self._enormous(scale) and not (progress.zero and did_well(progress)):  # of other losses it tells little
            yield self._as_collected(run, scale)

    def _scale(self, run: Run) -> _Scale | None:
        """The scale of the inputs, and what is wrong with it; None if no probe had finite ones beside zero."""
        names = ("input_mean", "input_std", "input_absmax")
        frame = run.frame("steps", *names).drop_nulls()
        frame = frame.filter(pl.all_horizontal(pl.col(names).is_finite()) & (pl.col("input_absmax") > 0))
        if frame.is_empty():
            return None
        mean, std, absmax = (scalar(frame[name].median()) for name in names)
        size = scalar((frame["input_mean"] ** 2 + frame["input_std"] ** 2).sqrt().median())
        kind = ""
        if size > self.size:
            kind = "too large"
        elif absmax < self.least:
            kind = "too small"
        elif abs(mean) > self.offset * std and abs(mean) > 2:
            kind = "far from zero"
        return _Scale(kind, mean, std, absmax, size)

    def _reaches(self, scale: _Scale, wide: WideStart | None, ratio: float | None) -> bool:
        """Whether it shows in the model that the scale is off; what is far off needs no further witness."""
        if scale.kind != "too large" or scale.size > 3 * self.size or wide is not None:
            return True
        return ratio is not None and ratio > self.outlier

    def _enormous(self, scale: _Scale) -> bool:
        return scale.size > self.enormous

    def _as_collected(self, run: Run, scale: _Scale) -> Finding:
        """What no network is given on purpose, whatever the loss tells of it."""
        evidence = self._evidence(run, scale, first_layer(run))
        evidence = replace(evidence, opposing=(*evidence.opposing, "The loss does not tell what it costs."))
        found = self._finding(run, scale, "the model does not normalise them", "warning", 0.6, evidence)
        return replace(found, threshold=self.enormous)

    def _broken(self, run: Run, scale: _Scale) -> Iterator[Finding]:
        """A finding where nothing can be measured: hardly a loss was finite, or some are negative."""
        step = broken(run)
        if step is not None and scale.kind == "too large":
            outcome = f"the loss or a gradient is not finite from step {count(step)} on"
            yield self._finding(run, scale, outcome, "error", 0.8, self._evidence(run, scale, first_layer(run)))
        elif step is None and self._enormous(scale):
            yield self._as_collected(run, scale)
        elif step is None:
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")

    def _judged(
        self, run: Run, scale: _Scale, progress: Progress, wide: WideStart | None, damage: Harm | None
    ) -> Finding:
        little = progress.learned < self.learned
        lasting = little or (damage is not None and not damage.recovered)
        sure = wide is not None or damage is not None or scale.kind == "too small"
        evidence = self._evidence(run, scale, first_layer(run))
        if not little:
            told = f"The run learned {percent(min(1.0, progress.learned))} of what there is to learn nevertheless."
            evidence = replace(evidence, opposing=(*evidence.opposing, told))
        outcome = _outcome(progress, wide, damage, self.learned)
        return self._finding(run, scale, outcome, "error" if lasting else "warning", 0.93 if sure else 0.8, evidence)

    def _finding(
        self, run: Run, scale: _Scale, outcome: str, severity: Severity, confidence: float, evidence: Evidence
    ) -> Finding:
        small = scale.kind == "too small"
        threshold = {"too large": self.size, "too small": self.least}.get(scale.kind, self.offset)
        value = {"too large": scale.size, "too small": scale.absmax}.get(
            scale.kind, abs(scale.mean) / max(scale.std, 1e-12)
        )
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"The inputs are {scale.kind} (mean {number(scale.mean, 3)}, standard deviation"
            f" {number(scale.std, 3)}, magnitudes up to {number(scale.absmax, 3)}), and {outcome}.",
            confidence=confidence,
            first_step=run.first_step,
            last_step=run.last_step,
            tensors=tuple(tensor.name for tensor in weights(run)[:1]),
            value=value,
            threshold=threshold,
            evidence=evidence,
            causes=("Inputs divided by 255 twice, or scaled down otherwise", "Units of the data as they were collected")
            if small
            else ("Inputs not normalised: pixels of 0 to 255, columns of a table in their own units",),
            advice=(
                "Standardise each feature by the mean and standard deviation of the training data.",
                "For images: divide by 255, once.",
                "Or begin the model with a BatchNorm or LayerNorm.",
            ),
            chart=ChartRef("steps", "input_std", reference=self.size if scale.kind == "too large" else None),
        )

    def _evidence(self, run: Run, scale: _Scale, ratio: float | None) -> Evidence:
        supporting: list[str] = []
        opposing: list[str] = []
        if ratio is not None:
            told = f"The gradient of the first layer, relative to its weights, is {number(ratio, 3)} times the others'."
            off = ratio < 1 / self.outlier if scale.kind == "too small" else ratio > self.outlier
            (supporting if off else opposing).append(told)
        spread = run.frame("steps", "input_spread")["input_spread"].drop_nulls().drop_nans()
        if len(spread) and scalar(spread.median()) > 100:
            supporting.append(f"The features differ in scale by a factor of {number(scalar(spread.median()), 2)}.")
        return Evidence(tuple(supporting), tuple(opposing))


def _outcome(progress: Progress, wide: WideStart | None, damage: Harm | None, learned: float) -> str:
    """What became of the training, in words."""
    end = number(progress.end.value)
    if damage is not None:
        return f"the loss was harmed ({damage.kind}): from {number(damage.start)} it reached {number(damage.level)}"
    if wide is not None and wide.kind == "loss" and wide.level:
        factor = number(wide.value, 3)
        return f"the first loss of {number(wide.loss)} is {factor} times that of uniform predictions; it ended at {end}"
    if progress.learned < learned:
        return f"the loss got from {number(progress.start)} no lower than {end}"
    return f"the first predictions were far too large; the loss ended at {end}"


def normalises_first(run: Run) -> bool:
    """Whether the first module that is no container is one that normalises, or the first with parameters is."""
    names = [module.name for module in run.manifest.modules]
    inner = [
        module.type
        for module in run.manifest.modules
        if not any(name.startswith(f"{module.name}.") or (not module.name and name) for name in names)
    ]
    first = [inner[0]] if inner else []
    first += [tensor.module_type for tensor in run.tensors[:1]]
    return any("norm" in name.lower() for name in first)


def first_layer(run: Run) -> float | None:
    """Relative gradient of the first weight tensor over the median of the others, at the start; None if unknown."""
    names = [tensor.name for tensor in weights(run)]
    frame = of_weights(run, "grad_ratio").filter(pl.col("grad_ratio").is_finite() & (pl.col("grad_ratio") > 0))
    starts = frame.group_by("tensor", maintain_order=True).agg(pl.col("grad_ratio").head(10).median())
    of = dict(starts.select("tensor", "grad_ratio").iter_rows())
    others = pl.Series([value for name, value in of.items() if name != names[0]], dtype=pl.Float64)
    first = of.get(names[0]) if names else None
    middle = scalar(others.median())
    return first / middle if first is not None and math.isfinite(middle) and middle > 0 else None
