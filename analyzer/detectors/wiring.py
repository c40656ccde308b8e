"""WIR001: parameters that the loss, the model and the optimizer do not agree on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..noise import scalar
from ..run import Run
from ..wires import Leaf, leaves_of
from ..wording import listed, number, percent, plural
from .base import Detector


@dataclass(frozen=True, slots=True)
class Gap:
    """A way in which loss, model and optimizer disagree: what it is called, what it means, causes and remedies."""

    kind: str
    meaning: str
    causes: tuple[str, ...]
    advice: tuple[str, ...]


@dataclass(frozen=True)
class Wiring(Detector):
    """Parameters that can never learn, because the loss, the model and the optimizer do not agree on them.

    ## What it does
    Compares three sets of tensors that were recorded on the first steps and whenever they changed: those that the loss
    reaches, those that the model registers, those that an optimizer holds. *Forgotten*: in the model, reached, but in
    no optimizer. *Detached*: held by the optimizer and called, but no loss reached them at any step. *Stale*: held by
    the optimizer, but neither in the model nor reached. *Unregistered*: reached, but not in the model. What is held and
    was never called, such as an unused head or an expert that is never chosen, is a note. Tensors that do not require a
    gradient are frozen on purpose and never count. What is wired and stands still all the same is told by UPD002.

    ## Why it matters
    Such a model trains, and is merely worse than it should be. No curve shows it.

    ## What to try
    Build the optimizer from `model.parameters()` after the model is complete and on its device. Keep layers in a
    `ModuleList`, not in a list. Look for `.detach()`, `.data`, `.item()`, `torch.no_grad()` and argmax between the
    parameters and the loss. Call `requires_grad_(False)` on what is frozen on purpose.

    ## Options
    None: what is wired is a fact.

    ## References
    - Jiang et al. 2025, TrainCheck: silent errors of this kind, found one iteration after they begin.
    """

    code: ClassVar[str] = "WIR001"
    name: ClassVar[str] = "parameters-not-wired"
    severity: ClassVar[Severity] = "error"
    explains: ClassVar[tuple[str, ...]] = ("LOS001", "STP002", "GRD002", "GRD003")

    def detect(self, run: Run) -> Iterator[Finding]:
        """One finding for each kind of gap."""
        leaves = leaves_of(run)
        if not leaves:
            raise NotApplicable("the wiring was not recorded")
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        stale = [i for i in wanted if i.held and not i.registered and not i.reached]
        yield from self._forgotten(run, [i for i in wanted if i.registered and i.reached and not i.held], wanted, stale)
        yield from self._detached(run, [i for i in wanted if i.registered and i.held and not i.reached], wanted)
        yield from self._stale(run, stale, wanted)
        yield from self._unregistered(run, [i for i in wanted if i.reached and not i.registered], wanted)

    def _forgotten(self, run: Run, found: list[Leaf], wanted: list[Leaf], stale: list[Leaf]) -> Iterator[Finding]:
        if found:
            causes = _FORGOTTEN.causes
            gap = replace(_FORGOTTEN, causes=(causes[1], causes[0], causes[2])) if stale else _FORGOTTEN
            yield self._finding(run, gap, found, wanted, "error", 0.95)

    def _detached(self, run: Run, found: list[Leaf], wanted: list[Leaf]) -> Iterator[Finding]:
        """What was called comes before something reached in forward order; what was never called comes last."""
        registered = [leaf for leaf in wanted if leaf.registered]
        last = max((place for place, leaf in enumerate(registered) if leaf.reached), default=len(registered))
        called = [leaf for leaf in found if registered.index(leaf) < last]
        unused = [leaf for leaf in found if registered.index(leaf) > last]
        if called:
            yield self._finding(run, _DETACHED, called, wanted, "error", 0.9)
        if unused:
            yield self._finding(run, _UNUSED, unused, wanted, "note", 0.6)

    def _stale(self, run: Run, found: list[Leaf], wanted: list[Leaf]) -> Iterator[Finding]:
        if found:
            yield self._finding(run, _STALE, found, wanted, "error", 0.9)

    def _unregistered(self, run: Run, found: list[Leaf], wanted: list[Leaf]) -> Iterator[Finding]:
        lost = [leaf for leaf in found if leaf.parameter and not leaf.held]
        if lost:
            yield self._finding(run, _UNREGISTERED, lost, wanted, "warning", 0.6)
        trained = [leaf for leaf in found if leaf.held]
        if trained:
            yield self._finding(run, _UNSAVED, trained, wanted, "note", 0.6)

    def _finding(
        self, run: Run, gap: Gap, found: Sequence[Leaf], wanted: Sequence[Leaf], severity: Severity, confidence: float
    ) -> Finding:
        names = tuple(leaf.name for leaf in found)
        share = _share(found, wanted)
        others = len(wanted) - len(found)
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=f"{plural(len(found), 'tensor')} ({listed(names)}; {percent(share)} of the trainable parameters)"
            f" {'is' if len(found) == 1 else 'are'} {gap.kind}: {gap.meaning}.",
            confidence=confidence,
            first_step=run.first_step,
            last_step=run.last_step,
            tensors=names,
            value=float(len(found)),
            threshold=0.0,
            unit="tensors",
            evidence=_evidence(run, names, others),
            causes=gap.causes,
            advice=gap.advice,
            chart=_chart(run, names),
        )


_FORGOTTEN = Gap(
    "forgotten",
    "reached by the loss but held by no optimizer, and so left as initialised",
    (
        "The optimizer was given only some of the model's parameters or groups",
        "Layers were added or replaced after the optimizer was built",
        "They are frozen on purpose, but still require gradients",
    ),
    (
        "Build the optimizer from model.parameters(), after the model is complete.",
        "If they are frozen on purpose: call requires_grad_(False) on them, which is faster as well.",
    ),
)
_DETACHED = Gap(
    "detached",
    "held by an optimizer, but reached by the loss at no step",
    (
        "detach(), .data, .item(), torch.no_grad() or argmax between them and the loss",
        "Their output does not enter the loss",
    ),
    ("Follow their output to the loss and look for what cuts the graph.",),
)
_UNUSED = Gap(
    "unused",
    "held by an optimizer, but not called before anything that the loss reaches, and reached at no step",
    (
        "The modules are not used in the forward pass, or not yet",
        "Their output does not enter the loss",
    ),
    ("Remove modules that are not used; if they should be, look for where their output is lost.",),
)
_STALE = Gap(
    "stale",
    "held by an optimizer, but neither in the model nor reached by the loss",
    (
        "The optimizer was built before the model, or a layer of it, was replaced",
        "The optimizer was built from another copy of the model",
    ),
    ("Build the optimizer anew after every change of the model.",),
)
_UNREGISTERED = Gap(
    "unregistered",
    "reached by the loss, but known to neither the model nor an optimizer",
    (
        "Layers kept in a plain list or dictionary in place of ModuleList or ModuleDict",
        "Another network that is not trained here, such as a teacher or a discriminator",
    ),
    (
        "Keep layers in torch.nn.ModuleList, parameters in torch.nn.ParameterList.",
        "Put a network that is not trained here under torch.no_grad(), or call requires_grad_(False) on it.",
    ),
)
_UNSAVED = Gap(
    "unregistered",
    "trained, but not in the model, so that state_dict() and to() pass over them",
    ("Layers kept in a plain list or dictionary", "A parameter on its own, such as a temperature"),
    ("Register them with the model, or save them yourself.",),
)


def _share(found: Sequence[Leaf], wanted: Sequence[Leaf]) -> float:
    return sum(leaf.numel for leaf in found) / max(1, sum(leaf.numel for leaf in wanted))


def _evidence(run: Run, names: Sequence[str], others: int) -> Evidence:
    rows = run.frame("layers", "grad_norm", "update_norm").filter(pl.col("tensor").is_in(list(names)))
    supporting: list[str] = []
    opposing: list[str] = []
    if rows["grad_norm"].count():
        supporting.append(f"Their gradients have a norm of {number(scalar(rows['grad_norm'].median()))} (median).")
    if rows["update_norm"].count() and (rows["update_norm"].fill_null(0.0) == 0).all():
        supporting.append("Not one of their updates is different from zero.")
    supporting.append(
        f"{plural(others, 'other trainable tensor')} {'is' if others == 1 else 'are'} wired as they should be."
    )
    if run.step_count < 10:
        opposing.append(f"Only {plural(run.step_count, 'step')} {'was' if run.step_count == 1 else 'were'} recorded.")
    return Evidence(tuple(supporting), tuple(opposing))


def _chart(run: Run, names: Sequence[str]) -> ChartRef | None:
    """The updates of the tensors, if any were recorded."""
    known = [name for name in names if any(tensor.name == name for tensor in run.tensors)]
    column = "update_norm" if run.has("layers", "update_norm") else "grad_norm"
    return ChartRef("layers", column, tuple(known[:8])) if known and run.has("layers", column) else None
