"""Do the layers tell the whole gradient? Where they do not, what follows from them is not written.

The projections of the individual gradients must add up to what the gradient itself gives. They do not where the loss
has a penalty, a weight is used outside its module, or a hook changes a gradient on its way: then nothing is better than
a wrong number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SLOPES = ("start_slope", "start_slope_var", "end_slope", "end_slope_var")
SCATTER = (
    *("inner_mean", "inner_var", "grad_var", "gsnr_sum", "gsnr_count"),
    *("grad_square", "ggn_trace", "tic_sum", "tic_count"),
)
STANDARD_ERRORS = 0.03
"""By which the mean slope of the layers may differ from the slope of the gradient."""
SHARE = 0.01
"""Of the squared gradient norm, by which the mean inner product may differ from it."""
REASON = (
    "the layers' individual gradients do not add up to the gradient (a penalty in the loss, a weight used outside its "
    "module, a gradient changed by a hook)"
)

Columns = Mapping[str, list[Any] | None]
"""Values of a block by column of `steps`; None for a column that no row has."""


def unexplained(columns: Columns) -> dict[str, set[int]]:
    """Rows of a block in which slopes, and in which statistics of the scatter, must be dropped, by column.

    Means over a subset of the samples differ by chance: those rows are not judged.
    """
    rows = range(len(columns["step"] or ()))
    slopes = {i for i in rows if _slope_differs(_row(columns, i))}
    scatter = {i for i in rows if _norm_differs(_row(columns, i))}
    before = {i - 1 for i in slopes if i}  # which had no slope at the end of an update to be judged by
    return {**dict.fromkeys(SLOPES, slopes | scatter | before), **dict.fromkeys(SCATTER, slopes | scatter)}


def _row(columns: Columns, i: int) -> dict[str, Any]:
    return {name: values[i] for name, values in columns.items() if values is not None and values[i] is not None}


def _slope_differs(row: dict[str, Any]) -> bool:
    if not {"end_slope", "end_slope_total", "slope_count"} <= row.keys() or row["slope_count"] != row.get("batch_size"):
        return False
    error = (max(row.get("end_slope_var", 0.0), 0.0) / row["slope_count"]) ** 0.5
    whole = row["end_slope_total"]
    return bool(abs(row["end_slope"] - whole) > STANDARD_ERRORS * error + 1e-3 * abs(whole))


def _norm_differs(row: dict[str, Any]) -> bool:
    if not {"inner_mean", "grad_norm"} <= row.keys() or row.get("individual_count") != row.get("batch_size"):
        return False
    if row.get("stale_grad_norm", 0.0) > 0:  # `.grad` holds more than this step's gradient
        return False
    whole = row["grad_norm"] ** 2
    return bool(abs(row["inner_mean"] - whole) > SHARE * whole)
