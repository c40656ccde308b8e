"""Tensors as rows of a chart: in forward order, neighbours joined where there are more than rows to draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ..wording import plural

if TYPE_CHECKING:
    from ..run import Run


@dataclass(frozen=True, slots=True)
class TensorRows:
    """`labels` in forward order; `of` has the columns tensor and row (a label); `joined` tensors share a row."""

    labels: tuple[str, ...]
    of: pl.DataFrame
    joined: int

    def note(self) -> str:
        """A sentence about joined rows, if there are any."""
        if self.joined == 1:
            return ""
        return f"A row stands for {plural(self.joined, 'tensor')} that follow each other, named after the first."


def tensor_rows(run: Run, column: str, most: int) -> TensorRows:
    """The tensors with values in a column of `layers`, in at most `most` rows."""
    names = tensors_with(run, column)
    joined = max(1, -(-len(names) // most))
    labels = [_label(names[start : start + joined]) for start in range(0, len(names), joined)]
    frame = pl.DataFrame(
        {"tensor": names, "row": [labels[i // joined] for i in range(len(names))]},
        schema={"tensor": pl.String, "row": pl.String},
    )
    return TensorRows(tuple(labels), frame, joined)


def tensors_with(run: Run, column: str) -> list[str]:
    """Names of the tensors that have a value in a column of `layers`, in forward order; unknown ones come last."""
    frame = run.frame("layers", column)
    present = frame.filter(pl.col(column).is_not_null() & pl.col("tensor").is_not_null())["tensor"]
    found = dict.fromkeys(present.unique(maintain_order=True).to_list())
    ordered = [tensor.name for tensor in run.tensors if tensor.name in found]
    return list(dict.fromkeys([*ordered, *found]))


def _label(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
