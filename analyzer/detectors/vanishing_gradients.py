"""GRD002: hardly any gradient reaches the first layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..depth import amplification, embeddings_only, gradient_profile, of_weights, weights
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..overshoot import death
from ..phases import phases
from ..progress import Progress, adversarial, constant_input, measured, uninformed
from ..run import Run
from ..spans import Span, firing_spans
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class VanishingGradients(Detector):
    """The gradients of the first layers are lost in the layers above them.

    ## What it does
    Compares the relative gradients (norm of the gradient over norm of the tensor) of the first and the last layers, at
    every probe. It fires if those of the first are a thousand times smaller, falling with depth, for most of the run,
    and little was learned. Biases, scales of norms, embeddings and frozen tensors are left out. What counts is the
    ratio: gradients that are small in all layers, as they are when a training has converged, are no finding. It fires
    as well if, from the start, hardly any signal reaches the weights on its way up: if the largest of their gradients
    is a hundred times smaller than that of the last bias, and next to nothing was learned.

    ## Why it matters
    Layers that get no gradient stay as they were initialised. The layers above them see random features, or nothing.

    ## What to try
    ReLU or GELU in place of sigmoid or tanh; normalisation layers; residual connections; initialisation by He or
    Xavier; fewer layers. If the gradients were sound at the start and died later, look for dead or saturated units: a
    learning rate that is too large, inputs that are not scaled.

    ## Options
    - `decades` (3 decades between last and first layers): AUTOTRAINER's beta_1 (1e-3); calibrated: healthy trainings
      stayed below 2, deep sigmoid networks above 3.5.
    - `signal` (0.05, gradient of a weight over that of the last bias): calibrated, healthy trainings began above 0.3.
    - `persistence` (0.7, share of the probes): calibrated; healthy trainings have 0.01 at most.
    - `learned` (0.5, share of what there was to learn): more is no finding, calibrated on networks that recover.
    - `probes` (10): fewer cannot show persistence.

    ## References
    - Hochreiter 1991; Bengio et al. 1994; Glorot and Bengio 2010.
    - Zhang et al. 2021, AUTOTRAINER; Schneider et al. 2021, Cockpit, section 3.2: per layer, not per network.
    """

    code: ClassVar[str] = "GRD002"
    name: ClassVar[str] = "vanishing-gradients"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",), "layers": ("grad_norm", "param_norm")}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "STP002", "ACT001", "ACT002", "UPD001")

    decades: float = 3.0
    """Decades (powers of ten) between the last and the first layers."""
    signal: float = 0.05
    """Largest gradient of a weight over that of the last bias."""
    persistence: float = 0.7
    """Share of the probes."""
    learned: float = 0.5
    """Share of the loss of a model that knows nothing."""
    probes: int = 10
    """Probes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, for the longest stretch."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: how much was learned is not known")
        profile = gradient_profile(run)
        if profile.is_empty() or embeddings_only(run):
            raise NotApplicable("fewer than three weight tensors have gradients: there is no depth to compare over")
        if profile.height < self.probes:
            raise NotApplicable(
                f"{profile.height} probes cannot show that something persists; {self.probes} are needed"
            )
        if constant_input(run):
            raise NotApplicable("the input is the same for all samples: what gradients it brings says nothing of depth")
        progress = measured(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values: how much was learned is not known")
        violated = profile.select((pl.col("decades") <= -self.decades) & (pl.col("trend") > 0.5)).to_series()
        spans = firing_spans(profile["step"], violated)
        longest = max(spans, key=lambda span: span.violations, default=None)
        knows_nothing = uninformed(run, progress)
        if progress.learned > self.learned and not knows_nothing:
            return
        faint = list(self._faint(run, progress)) if knows_nothing else []
        yield from faint
        if longest is None or faint:
            return
        from_start = scalar(profile["decades"].head(5).median()) <= -self.decades
        lasting = longest.violations >= self.persistence * profile.height
        phase = phases(run)
        steady = phase is None or phase.full_from is not None  # in a learning-rate range test networks die by intent
        died = not from_start and steady and bool(knows_nothing) and longest.last_step >= profile["step"].tail(3)[0]
        if longest.share >= self.persistence and ((lasting and from_start) or died):
            yield self._finding(run, profile, longest, progress, from_start=from_start)

    def _faint(self, run: Run, progress: Progress) -> Iterator[Finding]:
        """A signal that fades on its way up: all weights are alike in that they get next to nothing."""
        signal = amplification(run)
        values = signal["amplification"]
        if values.len() < self.probes or not scalar(values.head(5).median()) < self.signal:
            return
        share = scalar((values < self.signal).mean())
        if share < self.persistence:
            return
        level = scalar(values.median())
        yield Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"From the start no weight gets a gradient larger than {number(level, 2)} times that of the last"
            f" bias: the signal is lost on its way up, and {_outcome(progress)}.",
            confidence=0.95,
            first_step=run.first_step,
            last_step=int(signal["step"][-1]),
            value=level,
            threshold=self.signal,
            evidence=Evidence((f"{percent(share)} of the probes show it.",)),
            causes=(_CAUSES[2], _CAUSES[3], _CAUSES[1]),
            advice=_ADVICE,
            chart=ChartRef("layers", "grad_norm"),
        )

    def _finding(self, run: Run, profile: pl.DataFrame, span: Span, progress: Progress, *, from_start: bool) -> Finding:
        inside = profile.filter(pl.col("step").is_between(span.first_step, span.last_step))
        decades = -scalar(inside["decades"].median())
        names = [tensor.name for tensor in weights(run)]
        when = "from the start" if from_start else f"from step {count(span.first_step)} on, after a sound start"
        size = "at least a trillion" if decades >= 11.9 else number(10**decades, 2)
        nothing = progress.learned < 0.1
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if nothing else "warning",
            message=f"Relative to its weights, the gradient of the first layers ({names[0]}) is {size} times smaller"
            f" than that of the last ({names[-1]}) {when}, and {_outcome(progress)}.",
            confidence=(0.95 if nothing else 0.8) if from_start else 0.4,
            first_step=span.first_step,
            last_step=span.last_step,
            tensors=(names[0], names[-1]),
            value=decades,
            threshold=self.decades,
            unit="decades",
            evidence=_evidence(run, span, inside, progress, from_start=from_start),
            causes=_causes(run, from_start=from_start),
            advice=_ADVICE
            if from_start
            else (
                "Lower the learning rate, or warm it up: too large steps kill units for good.",
                "Scale the inputs; use GELU or a leaky ReLU.",
            ),
            chart=ChartRef("layers", "grad_ratio", (names[0], names[-1])),
        )


_CAUSES = (
    "Saturating activations (sigmoid, tanh) in many layers",
    "Great depth without residual connections or normalisation",
    "Initialisation too narrow",
    "Dead or saturated units",
)
_ADVICE = (
    "Use ReLU or GELU in place of sigmoid or tanh.",
    "Add normalisation layers or residual connections.",
    "Initialise by He (ReLU) or Xavier (tanh, sigmoid).",
    "Try it with fewer layers.",
)


def _causes(run: Run, *, from_start: bool) -> tuple[str, ...]:
    """The likely causes in order: by whether the gradients were sound at the start, and what became of the weights."""
    if from_start:
        return _CAUSES
    norms = of_weights(run, "param_norm").group_by("step", maintain_order=True).agg(pl.col("param_norm").max())
    shrunk = scalar(norms["param_norm"][-1]) < 0.1 * scalar(norms["param_norm"][0])
    return ("Weight decay so strong that the weights shrank to nothing",) * shrunk + (_CAUSES[3], *_CAUSES[:3])


def _outcome(progress: Progress) -> str:
    if progress.learned < 0.1:
        return f"next to nothing was learned (loss {number(progress.end.value)} at the end)"
    return f"only {percent(progress.learned)} of the loss of {number(progress.reference)} was learned away"


def _evidence(run: Run, span: Span, inside: pl.DataFrame, progress: Progress, *, from_start: bool) -> Evidence:
    trend = scalar(inside["trend"].median())
    supporting = [
        f"{percent(span.share)} of the probes in steps {count(span.first_step)} to {count(span.last_step)} show it.",
        f"The logarithm of the relative gradient rises with depth (correlation {number(trend, 2)}).",
    ]
    opposing = []
    if progress.learned >= 0.1:
        opposing.append(f"The loss fell from {number(progress.start)} to {number(progress.end.value)} nevertheless.")
    died = death(run)
    if not from_start and died is not None:
        opposing.append(f"The gradients were sound at first and died around step {count(died)}: not the depth's doing.")
    return Evidence(tuple(supporting), tuple(opposing))
