"""Alpha: where an update ended on the parabola fitted along it, from slopes and losses at both of its ends.

Mahsereci & Hennig 2017; Schneider, Dangel & Hennig 2021, section 2.1.
"""

from __future__ import annotations

import polars as pl

from recorder.schema import Column

from .derived_column import Derived, finite

MISSED = 0.1
"""Standard errors by which the slope of the layers may differ from that of the whole gradient.

A recorder on its own drops such slopes itself; of several ranks only the pooled ones can be compared.
"""

_ALPHA_INGREDIENTS = ("loss", "loss_var", "start_slope", "start_slope_var", "end_slope", "end_slope_var")


def _next(name: str) -> pl.Expr:
    """The column at the following optimizer step; null where that step was not recorded or was another optimizer's."""
    follows = (pl.col("step").shift(-1) == pl.col("step") + 1) & pl.col("optimizer").eq_missing(
        pl.col("optimizer").shift(-1)
    )
    return pl.when(follows).then(pl.col(name).shift(-1))


def _fitted_slopes() -> tuple[pl.Expr, pl.Expr]:
    """Slopes g.d at both ends of the update, adjusted so that one parabola passes through slopes and losses.

    Weighted least squares in closed form. Along the update (x from 0 to 1) a parabola obeys
    f(1) - f(0) = (f'(0) + f'(1)) / 2; the four measurements miss that by c, whose variance is
    var f(0) + var f(1) + (var f'(0) + var f'(1)) / 4. Minimising the residuals weighted with 1/variance under that one
    constraint shares c out in proportion to each measurement's part of the variance. An exact measurement (variance 0)
    is thus left as it is; only if all four are exact and still miss the constraint is there no fit.
    """
    start, end = pl.col("start_slope"), _next("end_slope")
    start_var, end_var = pl.col("start_slope_var"), _next("end_slope_var")
    miss = _next("loss") - pl.col("loss") - (start + end) / 2
    variance = pl.col("loss_var") + _next("loss_var") + (start_var + end_var) / 4
    share = pl.when(miss == 0).then(variance * 0).when(variance > 0).then(miss / variance / 2)
    return start + start_var * share, end + end_var * share


def _layers_tell_all() -> pl.Expr:
    """False where the individual gradients of the layers do not add up to the gradient, as with a penalty in the loss.

    Only judged where all samples were kept: of some, the mean differs by chance.
    """
    layers, whole = _next("end_slope"), _next("end_slope_total")
    error = (_next("end_slope_var") / _next("slope_count")).sqrt().fill_null(0.0)
    differs = (layers - whole).abs() > MISSED * error + 1e-3 * whole.abs()
    return ~(differs & (_next("slope_count") == _next("batch_size"))).fill_null(False)


def _moved() -> pl.Expr:
    """False where the update is known to be zero: both slopes are zero then, and the step has no place on the fit."""
    return pl.col("update_norm").is_null() | (pl.col("update_norm") != 0)


def _alpha() -> pl.Expr:
    start, end = _fitted_slopes()
    return pl.when(_moved() & _layers_tell_all() & (end >= start)).then(finite(-end / start))


def _alpha_concave() -> pl.Expr:
    start, end = _fitted_slopes()
    known = _moved() & _layers_tell_all() & start.is_finite() & end.is_finite()
    return pl.when(known).then(end < start)


ALPHA = (
    Derived(
        Column(
            "alpha",
            "float64",
            "",
            "where the update ended on the parabola fitted along it: -1 at its start, 0 at the minimum, 1 at the mirror"
            " point; null where the parabola has no minimum or an ingredient is missing",
        ),
        _ALPHA_INGREDIENTS,
        _alpha,
    ),
    Derived(
        Column("alpha_concave", "bool", "", "whether the parabola fitted along the step has no minimum"),
        _ALPHA_INGREDIENTS,
        _alpha_concave,
    ),
)
"""Derived columns of `steps`."""
