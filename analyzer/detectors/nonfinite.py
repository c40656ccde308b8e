"""NUM001: the first value that is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..findings import ChartRef, Evidence, Finding, Severity
from ..overshoot import first_nonfinite
from ..progress import losses
from ..run import Run
from ..wording import count, listed, number, plural
from .base import Detector


@dataclass(frozen=True)
class Origin:
    """Where the first non-finite value came up: a sentence, the tensors, and the likely causes in order."""

    sentence: str
    tensors: tuple[str, ...]
    causes: tuple[str, ...]


@dataclass(frozen=True)
class NonFinite(Detector):
    """The loss, a gradient or a parameter is NaN or infinite.

    ## What it does
    Looks for the first step at which the loss, a gradient, a parameter or an update is not finite, and for the first
    such tensor in the order of the backward pass. Steps that a gradient scaler skipped, or that were not taken, are no
    finding: half precision overflows now and then, and the scaler is there to see to it; only a scaler that skips many
    steps in a row is.

    ## Why it matters
    One NaN spreads to every parameter with the next update. Nothing that the run computes afterwards means anything.

    ## What to try
    See what came before: a learning rate that is too large and exploding gradients end like this, and have rules of
    their own. Otherwise look for divisions by zero, logarithms and square roots of zero, a softmax over masked values
    only; check the batch of that step; use bfloat16 in place of float16; run that step under
    `torch.autograd.set_detect_anomaly(True)`.

    ## Options
    - `skipped_in_a_row` (20 steps): so many steps skipped in succession by the gradient scaler are a finding. A scaler
      starts at 2**16 and halves, so that up to 16 are a start; set by reasoning, not calibrated.

    ## References
    - Amazon SageMaker Debugger, built-in rule ExplodingTensor; MindInsight, watchpoint tensor_overflow.
    - On skipped steps under mixed precision: Lightning, issue 9799.
    """

    code: ClassVar[str] = "NUM001"
    name: ClassVar[str] = "non-finite-values"
    severity: ClassVar[Severity] = "error"
    requires: ClassVar = {"steps": ("loss",)}

    skipped_in_a_row: int = 20
    """Steps."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """One finding for the first non-finite value, one for a scaler that skips on and on."""
        first = _first(run)
        if first is not None and not _passed_over(run, first):
            yield self._finding(run, first)
        elif (stretch := _skipped(run)) is not None and stretch[2] >= self.skipped_in_a_row:
            yield self._skipping(stretch)

    def _finding(self, run: Run, step: int) -> Finding:
        origin = _origin(run, step)
        frame = run.frame("steps", "loss").filter(pl.col("step") >= step)
        bad = frame.filter(pl.col("loss").is_finite().not_())
        finite = losses(run).filter(pl.col("step") > step).height
        recovered = frame.height > 1 and finite == frame.height - 1
        after = (
            f"The losses of all {plural(finite, 'step')} after it are finite"
            if recovered
            else f"Of the {plural(frame.height, 'step')} from there on, {count(bad.height)} have no finite loss"
        )
        return Finding(
            code=self.code,
            name=self.name,
            severity="warning" if recovered else self.severity,
            message=f"{origin.sentence} at step {count(step)}. {after}.",
            confidence=0.99,
            first_step=step,
            last_step=int(frame["step"][-1]),
            tensors=origin.tensors,
            value=float(bad.height),
            threshold=0.0,
            unit="steps",
            evidence=_evidence(run, step, recovered=recovered),
            causes=origin.causes,
            advice=(
                "Look at the batch of that step, and at divisions, logarithms and square roots in the loss.",
                "Repeat the steps before it under torch.autograd.set_detect_anomaly(True).",
                "Lower the learning rate, warm it up, or clip the gradient norm, if losses or gradients grew before.",
                "Use bfloat16 in place of float16, or a gradient scaler.",
            ),
            chart=ChartRef("steps", "loss") if len(bad) else ChartRef("steps", "grad_norm"),
        )

    def _skipping(self, stretch: tuple[int, int, int]) -> Finding:
        first, last, steps = stretch
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The gradient scaler skipped {count(steps)} steps in a row, {count(first)} to {count(last)}: the"
            " gradients overflow at any scale.",
            confidence=0.9,
            first_step=first,
            last_step=last,
            value=float(steps),
            threshold=float(self.skipped_in_a_row),
            unit="steps",
            causes=("The loss or a gradient is NaN whatever the scale", "Activations overflow the range of float16"),
            advice=("Use bfloat16, or compute the loss in float32.", "Run one step in float32 and look for NaN."),
            chart=ChartRef("steps", "loss_scale", reference=1.0),
        )


def _first(run: Run) -> int | None:
    """The first step at which anything is not finite, in the steps or in the layers."""
    values = ("grad_norm", "param_norm", "update_norm")
    steps = run.frame("steps", "skipped", "grad_norm_clipped")
    skipped, unscaled = steps.filter(pl.col("skipped")), steps.filter(pl.col("grad_norm_clipped").is_finite())["step"]
    odd = run.frame("layers", *values).filter(pl.any_horizontal(pl.col(values).is_finite().not_()))
    layers = odd.join(skipped, on="step", how="anti", maintain_order="left")
    gradient = pl.col("grad_norm").is_finite().not_() & pl.col("step").is_in(unscaled.implode()).not_()
    others = (pl.col(name).is_finite().not_() for name in values[1:])
    bad = layers.filter(pl.any_horizontal(gradient, *others))
    found = (first_nonfinite(run), None if bad.is_empty() else int(bad["step"][0]))
    return min((step for step in found if step is not None), default=None)


def _passed_over(run: Run, step: int) -> bool:
    """Whether the losses are all finite and the optimizer made no step there, as a scaler that is not told of does."""
    updates = run.frame("steps", "update_norm")
    made = updates.filter((pl.col("step") == step) & (pl.col("update_norm") != 0))
    known = updates["update_norm"].count() > 0
    return known and made.is_empty() and run.frame("steps", "loss")["loss"].drop_nulls().is_finite().all()


def _skipped(run: Run) -> tuple[int, int, int] | None:
    """First step, last step and length of the longest stretch of skipped steps."""
    frame = run.frame("steps", "skipped").with_columns(pl.col("skipped").fill_null(value=False))
    runs = (
        frame.with_columns(pl.col("skipped").rle_id().alias("stretch"))
        .filter("skipped")
        .group_by("stretch", maintain_order=True)
        .agg(pl.col("step").first().alias("first"), pl.col("step").last().alias("last"), pl.len().alias("steps"))
        .sort("steps", descending=True, maintain_order=True)
    )
    return None if runs.is_empty() else (int(runs["first"][0]), int(runs["last"][0]), int(runs["steps"][0]))


def _origin(run: Run, step: int) -> Origin:
    """Whether the value came up in the input, in a parameter, in the forward pass, or where in the backward pass."""
    rows = run.frame("layers", "grad_norm", "param_norm", "update_norm").filter(pl.col("step") == step)
    row = run.frame("steps", "loss", "input_nonfinite").filter(pl.col("step") == step)
    names = {column: _bad(run, rows, column) for column in ("param_norm", "grad_norm", "update_norm")}
    loss = row["loss"][0] if len(row) else None
    if len(row) and (row["input_nonfinite"][0] or 0) > 0:
        return Origin("The model's input is not finite", (), ("NaN or infinity in the data",))
    if tensors := names["param_norm"]:
        verb = "is" if len(tensors) == 1 else "are"
        return Origin(f"{listed(tensors)} {verb} not finite before the step", tensors, _IN_PARAMETERS)
    if loss is not None and not math.isfinite(loss):
        return Origin(f"The loss is {number(loss)} though the parameters are finite", (), _IN_FORWARD)
    if tensors := names["grad_norm"][::-1]:
        told = f"The gradient of {tensors[0]}, the first in backward order, is not finite"
        return Origin(told, tensors, _IN_BACKWARD)
    if tensors := names["update_norm"]:
        return Origin(f"The update of {listed(tensors)} is not finite", tensors, _IN_OPTIMIZER)
    return Origin("The gradient norm is not finite", (), ("Overflow of the gradient: it exploded",))


_IN_PARAMETERS = ("The previous update overflowed: learning rate too large", "Division by zero in the optimizer (eps)")
_IN_FORWARD = (
    "Learning rate too large: activations overflowed",
    "Logarithm or square root of zero, or division by zero, in the loss",
    "Overflow in half precision",
    "A bad batch",
)
_IN_BACKWARD = ("Division by zero or square root of zero in the backward pass", "Overflow in half precision")
_IN_OPTIMIZER = ("Overflow or division by zero in the optimizer",)


def _bad(run: Run, rows: pl.DataFrame, column: str) -> tuple[str, ...]:
    """The tensors whose value is not finite, in forward order."""
    present = set(rows.filter(pl.col(column).is_finite().not_())["tensor"])
    return tuple(tensor.name for tensor in run.tensors if tensor.name in present)


def _evidence(run: Run, step: int, *, recovered: bool) -> Evidence:
    """The losses right before, and whether the run came back."""
    before = losses(run).filter(pl.col("step") < step)["loss"].tail(3)
    told = ", ".join(number(value) for value in before)
    supporting = (f"The losses before it: {told}.",) if told else ("It is the first recorded step.",)
    return Evidence(supporting, ("Every later loss is finite.",) if recovered else ())
