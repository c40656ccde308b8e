"""The largest curvature beside the largest that the learning rate can stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ..absence import why_absent
from ..wording import number, percent
from .base import Chart, Figure, Missing
from .over_steps import Style, over_steps

if TYPE_CHECKING:
    from ..run import Run

EIGENVALUE = "largest eigenvalue"


class Sharpness(Chart):
    """Largest eigenvalue of the Hessian, and for SGD the value beyond which its steps no longer hold."""

    name = "sharpness"
    title = "Sharpness against the learning rate"
    section = "curvature"
    shows = ("steps.hess_max_ev", "steps.hess_max_ev_residual")

    def draw(self, run: Run) -> Figure | Missing:
        if not run.has("steps", "hess_max_ev"):
            return Missing(self.title, why_absent(run, "steps", "hess_max_ev"))
        frame = run.frame("steps", "hess_max_ev", "hess_max_ev_residual", "lr_max")
        value = pl.col("hess_max_ev").alias("value")
        lines = [frame.select("step", pl.lit(EIGENVALUE).alias("series"), value).drop_nulls("value")]
        momentum = _momentum(run)
        limit = "limit: 2 / rate" if not momentum else f"limit: 2 (1 + {number(momentum)}) / rate"
        if momentum is not None and frame["lr_max"].count():
            most = (2 * (1 + momentum) / pl.col("lr_max")).alias("value")
            lines.append(frame.select("step", pl.lit(limit).alias("series"), most).drop_nulls("value"))
        return over_steps(
            run,
            pl.concat(lines),
            "value",
            title=self.title,
            reading=(
                "Curvature in the steepest direction. Below the limit a step of gradient descent shrinks the error "
                "along it, above it the error grows. Large batches drive the curvature up to the limit and hover there."
                if len(lines) > 1
                else "Curvature in the steepest direction. Its limit is known for SGD only: others scale the curvature."
            ),
            style=Style(axis="eigenvalue", log=True),
            series=(EIGENVALUE, limit) if len(lines) > 1 else (),
            note=_residual(frame),
        )


def _momentum(run: Run) -> float | None:
    """The largest momentum of plain SGD, for which the limit is known; None for other optimizers."""
    if not run.groups or any(group.type != "SGD" for group in run.groups):
        return None
    found = [group.options.get("momentum") for group in run.groups]
    return max((float(value) for value in found if isinstance(value, (int, float))), default=0.0)


def _residual(frame: pl.DataFrame) -> str:
    """How exactly the eigenvalues are known."""
    share = frame.select(pl.col("hess_max_ev_residual") / pl.col("hess_max_ev").abs()).to_series()
    residual = share.filter(share.is_finite()).median()
    return f"Known to within {percent(residual)} (median)." if isinstance(residual, float) else ""
