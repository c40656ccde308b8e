"""How noisy the batch gradient is: the tests and scales that follow from the scatter of the individual gradients."""

from __future__ import annotations

import polars as pl

from recorder.schema import Column

from .derived_column import Derived, finite

ADDS_UP = 0.01
"""Relative difference up to which the individual gradients are taken to add up to the batch gradient."""


def _batch() -> pl.Expr:
    return pl.when(pl.col("individual_count") > 1).then(pl.col("individual_count"))


def _squared_norm() -> pl.Expr:
    """Squared norm of the gradient of the samples: the mean of its inner products with the individual gradients.

    Null where that differs from the norm of the gradient itself although all samples were kept: then the layers do not
    tell the whole gradient (a penalty, a weight used elsewhere), and neither would what follows from them.
    """
    inner, whole = pl.col("inner_mean"), pl.col("grad_norm") ** 2
    differs = ((inner - whole).abs() > ADDS_UP * whole) & (pl.col("individual_count") == pl.col("batch_size"))
    return pl.when((inner > 0) & ~differs.fill_null(False)).then(inner)


def _root(value: pl.Expr) -> pl.Expr:
    """Square root; what rounding made negative is zero."""
    return finite(value.clip(lower_bound=0).sqrt())


def _noise_scale() -> pl.Expr:
    """Trace of the covariance over the unbiased estimate of the true gradient's squared norm, if that is positive."""
    signal = _squared_norm() - pl.col("grad_var") / _batch()
    return pl.when(signal > 0).then(finite(pl.col("grad_var") / signal))


def _ortho_test() -> pl.Expr:
    across = pl.col("grad_var") - pl.col("inner_var") / _squared_norm()
    return _root(across / (_batch() * _squared_norm()))


def _per_entry() -> pl.Expr:
    """Mean over the entries of squared mean over variance (ddof 0)."""
    return pl.when((pl.col("gsnr_count") > 0) & _squared_norm().is_not_null()).then(
        pl.col("gsnr_sum") / pl.col("gsnr_count")
    )


def _noise_over_curvature() -> pl.Expr:
    """The recorded sum, where it is of any entry."""
    return pl.when(pl.col("tic_count") > 0).then(finite(pl.col("tic_sum")))


def _over_trace(square: pl.Expr) -> pl.Expr:
    """The square over the trace of the Hessian, null where that is not positive."""
    return pl.when(pl.col("hess_trace") > 0).then(finite(square / pl.col("hess_trace")))


_SCATTER = ("grad_var", "grad_norm", "inner_mean", "individual_count")

NOISE = (
    Derived(
        Column("norm_test", "float64", "", "noise of the gradient relative to its norm (Byrd et al. 2012, eq. 3.9)"),
        _SCATTER,
        lambda: _root(pl.col("grad_var") / (_batch() * _squared_norm())),
    ),
    Derived(
        Column("inner_test", "float64", "", "noise along the gradient (Bollapragada et al. 2017, eq. 2.6)"),
        (*_SCATTER, "inner_var"),
        lambda: finite(_root(pl.col("inner_var") / _batch()) / _squared_norm()),
    ),
    Derived(
        Column("ortho_test", "float64", "", "noise across the gradient (Bollapragada et al. 2017, eq. 3.3)"),
        (*_SCATTER, "inner_var"),
        _ortho_test,
    ),
    Derived(
        Column("mean_gsnr", "float64", "", "mean signal-to-noise ratio of the gradient's entries (Liu et al. 2020)"),
        ("gsnr_sum", "gsnr_count"),
        _per_entry,
    ),
    Derived(
        Column("early_stopping", "float64", "", "evidence that only noise is left (Mahsereci et al. 2017, eq. 7)"),
        ("gsnr_sum", "gsnr_count", "individual_count"),
        lambda: 1 - (_batch() - 1) * _per_entry(),
    ),
    Derived(
        Column("noise_scale", "float64", "samples", "batch size of equal noise and signal (McCandlish et al. 2018)"),
        _SCATTER,
        _noise_scale,
    ),
    Derived(
        Column("tic_diagonal", "float64", "", "noise over curvature, entry by entry (Takeuchi; Thomas et al. 2019)"),
        ("tic_sum", "tic_count"),
        _noise_over_curvature,
    ),
    Derived(
        Column("tic_trace", "float64", "", "mean squared individual gradient over the trace of the Hessian"),
        (*_SCATTER, "hess_trace"),
        lambda: _over_trace(pl.col("grad_var") * (1 - 1 / _batch()) + _squared_norm()),
    ),
    Derived(
        Column("cabs", "float64", "samples", "batch size that noise, rate and loss ask for (Balles et al. 2017, 22)"),
        (*_SCATTER, "loss", "lr"),
        lambda: finite(pl.col("lr").list.max() * pl.col("grad_var") * (1 - 1 / _batch()) / pl.col("loss")),
    ),
)
"""Derived columns of `steps`."""

NOISE_OF_TENSORS = (
    Derived(
        Column("mean_gsnr", "float32", "", "mean signal-to-noise ratio of the gradient's entries (Liu et al. 2020)"),
        ("gsnr_sum", "gsnr_count"),
        lambda: pl.when(pl.col("gsnr_count") > 0).then(pl.col("gsnr_sum") / pl.col("gsnr_count")),
    ),
    Derived(
        Column("tic_diagonal", "float32", "", "noise over curvature, entry by entry (Takeuchi; Thomas et al. 2019)"),
        ("tic_sum", "tic_count"),
        _noise_over_curvature,
    ),
    Derived(
        Column("tic_trace", "float32", "", "mean squared individual gradient over the trace of the Hessian's block"),
        ("grad_square", "hess_trace"),
        lambda: _over_trace(pl.col("grad_square")),
    ),
)
"""Derived columns of `layers`."""
