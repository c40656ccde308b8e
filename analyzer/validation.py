"""What was logged of a validation: losses and accuracies by step, under the names that people give them."""

from __future__ import annotations

import polars as pl

from .run import Run

_SPLITS = ("valid", "test")
_ACCURACIES = ("acc", "top1", "top_1")


def logged(run: Run, kind: str) -> pl.DataFrame:
    """`step` and `value` of a metric of the validation, else of the test: "loss", or "accuracy" as a share of one.

    Empty if none was logged. Values that are not finite are left out.
    """
    if run.row_count("metrics") == 0:
        return pl.DataFrame(schema={"step": pl.Int64, "value": pl.Float64})
    frame = run.frame("metrics", "split", "name", "value").filter(pl.col("value").is_finite())
    frame = frame.with_columns(pl.col("name").cast(pl.String).str.to_lowercase(), pl.col("split").cast(pl.String))
    if kind == "loss":
        wanted = pl.col("name").str.ends_with("loss")
    else:
        wanted = pl.any_horizontal([pl.col("name").str.contains(part, literal=True) for part in _ACCURACIES])
    for split in _SPLITS:
        found = frame.filter(wanted & (pl.col("split") == split))
        if not found.is_empty():
            first = found.filter(pl.col("name") == found["name"][0]).sort("step").select("step", "value")
            percent = kind != "loss" and bool((first["value"] > 1.5).any())
            return first.with_columns(pl.col("value") / 100) if percent else first
    return frame.head(0).select("step", "value")
