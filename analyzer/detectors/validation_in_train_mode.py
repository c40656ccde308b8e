"""GEN003: a validation whose model was left in training mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..run import Event, Run
from ..validation import held_out
from ..wording import count, listed, percent
from .base import Detector

_BATCH_NORM = re.compile(r"batch_?norm", re.IGNORECASE)
_DROPOUT = re.compile(r"dropout|drop_?path|stochastic_?depth|rrelu", re.IGNORECASE)


@dataclass(frozen=True)
class ValidationInTrainMode(Detector):
    """The model was validated in training mode: dropout drops, batch norms use, and learn, the validation batches.

    ## What it does
    Reads the mode audit of each pass within `recorder.evaluate(split)`, for splits that are called like held-out data
    (valid, val, dev, test, ...): the share of the modules in training mode. More than `share` of the passes with any is
    a finding, if the model has modules that behave differently then, by the names of their classes: dropout and its
    kin, batch norms. Without such modules the mode changes nothing that is known, and is not reported.

    ## Why it matters
    The metrics are those of another model: too bad with dropout, too good or too bad with batch norm. Moreover batch
    norms take the validation data into their running statistics, which the model keeps.

    ## What to try
    `model.eval()` before the validation, `model.train()` after it, and `torch.no_grad()` around it.

    ## Options
    - `share` (0.5, of the passes): a guess; one pass is enough where there is one.

    ## References
    - PyTorch: Module.eval. Full Stack Deep Learning, the five most common bugs.
    """

    code: ClassVar[str] = "GEN003"
    name: ClassVar[str] = "validation-in-train-mode"
    severity: ClassVar[Severity] = "warning"

    share: float = 0.5
    """Share of the passes."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        passes = [event for event in run.events_of("evaluation") if _audited(event)]
        if not passes:
            raise NotApplicable('no pass over held-out data was audited; validate within recorder.evaluate("valid")')
        wrong = [event for event in passes if event.detail["training_share"] > 0]
        norms, drops = _named(run, _BATCH_NORM), _named(run, _DROPOUT)
        if len(wrong) > self.share * len(passes) and (norms or drops):
            yield self._finding(wrong, len(passes), norms, drops)

    def _finding(self, wrong: list[Event], passes: int, norms: list[str], drops: list[str]) -> Finding:
        splits = list(dict.fromkeys(str(event.detail["split"]) for event in wrong))
        steps = [event.step for event in wrong if event.step is not None]
        share = max(float(event.detail["training_share"]) for event in wrong)
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"{count(len(wrong))} of {count(passes)} passes over {listed(splits)} were made with"
            f" {percent(share)} of the modules in training mode; {listed([*norms, *drops])} behave differently then.",
            confidence=0.95 if share > 0.9 else 0.85,
            first_step=min(steps, default=None),
            last_step=max(steps, default=None),
            value=share,
            threshold=0.0,
            unit="share",
            evidence=Evidence(
                (*_HARM_OF_NORMS * bool(norms), *_HARM_OF_DROPOUT * bool(drops)),
                ("A part of the model was in evaluation mode.",) * (share < 1),
            ),
            causes=("model.eval() is not called before the validation",),
            advice=("Call model.eval() before the validation and model.train() after it.",),
            chart=ChartRef("metrics", "value"),
        )


_HARM_OF_NORMS = ("The batch norms used, and took in, the statistics of the validation batches.",)
_HARM_OF_DROPOUT = ("Units were dropped while the model was validated.",)


def _audited(event: Event) -> bool:
    """Whether the event tells the mode of a pass over held-out data."""
    share = event.detail.get("training_share")
    return isinstance(share, (int, float)) and held_out(str(event.detail.get("split", "")))


def _named(run: Run, kind: re.Pattern[str]) -> list[str]:
    """Modules of a kind as `name (class)`."""
    return [f"{module.name} ({module.type})" for module in run.manifest.modules if kind.search(module.type)]
