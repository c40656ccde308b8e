"""GEN002: regularisation that keeps the model from learning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..overshoot import broken
from ..own_terms import own_terms
from ..pace import fallen
from ..progress import Progress, adversarial, losses, measured, uninformed
from ..regularisation import broadcast_elements, decay_of, decay_share, flat_validation, over_validation, shrinkage
from ..run import Run
from ..starts import wide_start
from ..wording import listed, number, percent
from .base import Detector


@dataclass(frozen=True)
class TooMuchRegularisation(Detector):
    """Weight decay, a penalty in the loss, or dropout outweighs the data, and the model underfits.

    ## What it does
    Asks for two witnesses. *Underfitting:* less than `learned` of the loss of a model that knows nothing was learned,
    or the predictions of a regression are nearly the same for all samples. *The mechanism:* one of
    *weight decay* that made `decay` of the first steps (decay of the weight over gradient and decay; for AdamW over
    the update) and shrank the weights below `shrunk` of their first norm (if twice as much of both, a warning without
    the other witness, where the loss does not tell how much is left to learn);
    *a penalty in the loss* that did so without any decay, where the first loss is far above that of uniform
    predictions, or the training loss ended far above the validation loss, or the weights all but vanished; or one whose
    loss fell while predictions stayed the same for all samples and the validation loss where it was; or, a note, terms
    of the user's own that make `own` of a loss which has settled;
    *dropout*, where it drops nearly all, or the training loss stayed significantly above the validation loss.

    ## Why it matters
    The model is worse on all data, the training data included, than it would be without.

    ## What to try
    Switch the regularisation off, fit the training data first, and bring it back in small steps. Weight decay of AdamW:
    0.01 to 0.1; of SGD: 1e-5 to 1e-3; dropout: 0.1 to 0.5. Look for a decay of biases, norms and embeddings.

    ## Options
    - `learned` (0.6, share of the loss of a model that knows nothing): calibrated; a model that does well is fine.
    - `fitted` (0.95, the same of one repeated batch): it can be fitted.
    - `decay` (0.25, share of the first steps): calibrated. Healthy: 0.02 and less, faulty: 0.33 to 1.
    - `shrunk` (0.6, share of the first norm): calibrated. Healthy weights grew, with few exceptions.
    - `gap` (1.3, training loss over validation loss): a guess.
    - `own` (0.05, share of the loss at the end): a guess.
    - `dropped` (0.8, share that is dropped): more than anybody recommends.

    ## References
    - Loshchilov and Hutter 2019, Decoupled weight decay. Full Stack Deep Learning, Troubleshooting.
    """

    code: ClassVar[str] = "GEN002"
    name: ClassVar[str] = "too-much-regularisation"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",), "layers": ("param_norm",)}
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "GRD002", "STP001", "STP002", "ACT001", "CUR001", "GEN001")

    learned: float = 0.6
    """Share of the loss of a model that knows nothing."""
    fitted: float = 0.95
    """The same of one repeated batch."""
    decay: float = 0.25
    """Share of the first steps."""
    shrunk: float = 0.6
    """Share of the first norm."""
    gap: float = 1.3
    """Training loss over validation loss."""
    own: float = 0.05
    """Share of the loss."""
    dropped: float = 0.8
    """Share that a dropout module drops."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: no loss has to fall")
        progress = measured(run)
        if progress is None:
            raise NotApplicable("the loss takes negative values, or fewer than two steps have a finite one")
        if run.step_count < _STEPS:
            raise NotApplicable(f"fewer than {_STEPS} steps were recorded")
        if not self._underfits(run, progress):
            crushed = None if progress.zero or run.manifest.mode == "overfit-batch" else self._decayed(run, most=True)
            if crushed:
                yield self._finding(run, progress, crushed)
            return
        found = self._decayed(run) or self._penalised(run, progress) or self._dropped(run, progress)
        found = found or self._weighed_down(run)
        if found:
            yield self._finding(run, progress, found)

    def _underfits(self, run: Run, progress: Progress) -> bool:
        """Whether much is left to learn; a loss without a known zero only by predictions that are all the same."""
        knows_nothing = uninformed(run, progress)
        enough = self.fitted if run.manifest.mode == "overfit-batch" else self.learned
        return bool(knows_nothing) or (progress.zero is not None and progress.learned < enough)

    def _decayed(self, run: Run, *, most: bool = False) -> _Mechanism | None:
        """Weight decay that made much of the steps; `most`: nearly all, so that it needs no other witness."""
        share, left = decay_share(run), shrinkage(run)
        factor = 2 if most else 1
        if share < factor * self.decay or not left < self.shrunk / factor:
            return None
        decays = listed([number(value) for value in sorted({decay_of(group.options) for group in run.groups} - {0.0})])
        return _Mechanism(
            f"Weight decay of {decays} made {percent(min(1.0, share))} of the first"
            f" steps and took the weights to {percent(left)} of their norm",
            share,
            self.decay,
            ("Weight decay far too large",),
            ("Divide the weight decay by 100, or leave it out until the training data are fitted.",),
            "error" if not most and (left < 0.5 * self.shrunk or share > 2 * self.decay) else "warning",
        )

    def _penalised(self, run: Run, progress: Progress) -> _Mechanism | None:
        left, ratio = shrinkage(run), over_validation(run)
        if broadcast_elements(run):
            return None
        stood = progress.zero is None and wide_start(run) is None and uninformed(run, progress)
        if stood and fallen(progress) > 0.2 and (level := flat_validation(run)) is not None:
            return self._added(progress, level)
        if not left < self.shrunk:
            return None
        first = float(losses(run)["loss"][0])
        above = progress.zero.uniform * self.gap if progress.zero else math.inf
        if not (first > above or left < 0.5 * self.shrunk or ratio > 2 * self.gap):
            return None
        return _Mechanism(
            f"The weights shrank to {percent(left)} of their norm without any weight decay, as a penalty in the loss"
            " makes them",
            left,
            self.shrunk,
            ("A penalty on the weights in the loss that outweighs the data",),
            ("Divide the penalty's factor by 100, and log penalty and data loss apart.",),
            "error" if left < 0.5 * self.shrunk else "warning",
        )

    def _added(self, progress: Progress, level: float) -> _Mechanism:
        told = f"The training loss fell from {number(progress.start)} to {number(progress.end.value)}, while what is"
        return _Mechanism(
            f"{told} predicted stayed the same for all samples and the validation loss at {number(level)}: what fell is"
            " a penalty, not the error",
            fallen(progress),
            0.2,
            ("A penalty in the loss that outweighs the data",),
            ("Divide the penalty's factor by 100, and log penalty and data loss apart.",),
            "error",
        )

    def _weighed_down(self, run: Run) -> _Mechanism | None:
        terms = None if broken(run) is not None else own_terms(run)
        if terms is None or not terms.settled or min(terms.own) < 0 or not terms.share >= self.own:
            return None
        return _Mechanism(
            f"Terms beside the loss that was called make {percent(terms.share)} of it at the end, and that one has"
            f" settled at {number(terms.part[-1])}",
            terms.share,
            self.own,
            ("A penalty in the loss that outweighs the data",),
            ("Divide the penalty's factor by 100, and see whether the rest of the loss falls further.",),
            "note",
        )

    def _dropped(self, run: Run, progress: Progress) -> _Mechanism | None:
        drops = [module for module in run.manifest.modules if module.dropout or "dropout" in module.type.lower()]
        ratio, share = over_validation(run), max((module.dropout or 0.0 for module in drops), default=0.0)
        nothing = bool(uninformed(run, progress))
        exploded = progress.end.value > 1.5 * progress.reference
        if not drops or exploded or not (ratio > self.gap or (nothing and ratio > 1.03) or share >= self.dropped):
            return None
        told = f"With dropout ({listed([module.name for module in drops])}"
        told += f", up to {percent(share)})" if share else ")"
        beside = f"the training loss stays at {number(ratio, 3)} times the validation loss"
        return _Mechanism(
            f"{told} {beside if ratio > 1.03 else 'hardly anything is left to learn from'}",
            ratio if ratio > self.gap else share,
            self.gap if ratio > self.gap else self.dropped,
            ("Dropout with far too large a share",),
            ("Lower the dropout to 0.1 to 0.5; look whether its argument is the share that is dropped, not kept.",),
            "error" if nothing else "warning",
        )

    def _finding(self, run: Run, progress: Progress, found: _Mechanism) -> Finding:
        left = progress.end.value
        reference = f", of {number(progress.zero.prior)} ({progress.zero.name})" if progress.zero else ""
        return Finding(
            code=self.code,
            name=self.name,
            severity=found.severity,
            message=f"{found.told}; the training loss ended at {number(left)}{reference}.",
            confidence={"error": 0.9, "warning": 0.75, "note": 0.5}[found.severity],
            first_step=run.first_step,
            last_step=run.last_step,
            value=found.value,
            threshold=found.threshold,
            unit="ratio",
            evidence=Evidence(
                (
                    f"{found.told}.",
                    f"The model underfits its training data: it learned {percent(max(0.0, progress.learned))}.",
                ),
                ("Part of the data was learned nevertheless.",) * (progress.learned > 0.2),
            ),
            causes=found.causes,
            advice=(*found.advice, "Fit the training data first, then bring the regularisation back in small steps."),
            chart=ChartRef("layers", "param_norm"),
        )


_STEPS = 40
"""Fewer steps show no end of a training."""


@dataclass(frozen=True, slots=True)
class _Mechanism:
    """How the regularisation acts, as a clause, with what decided."""

    told: str
    value: float
    threshold: float
    causes: tuple[str, ...]
    advice: tuple[str, ...]
    severity: Severity
