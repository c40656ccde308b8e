"""The README's table of models and instruments, read from short recordings. `make coverage-table` rewrites it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from support.layers import CASES, case, classify, numbers, with_head
from support.loops import Case, fly
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from analyzer.run import Run, open_run

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- make coverage-table -->\n", "<!-- end -->\n"


def unfused(model: nn.Module, batch: Any) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return classify(model, batch)


MODELS: dict[str, Case] = {
    "linear layers, in-place ReLU": CASES["linear"],
    "linear layers over a sequence": CASES["linear over a sequence"],
    "bilinear layer": CASES["bilinear"],
    "convolutions": CASES["conv 2d"],
    "convolutions in three dimensions": CASES["conv 3d"],
    "depthwise convolutions, padded in a circle": CASES["depthwise and circular"],
    "transposed convolutions": CASES["transposed conv 2d"],
    "batch norm in training mode": case(
        lambda: with_head(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), features=16), numbers(2, 4, 4)
    ),
    "batch norm in evaluation mode": CASES["batch norm in evaluation mode"],
    "layer norm": CASES["layer norm"],
    "group norm": CASES["group norm"],
    "RMS norm": CASES["rms norm"],
    "dropout": CASES["dropout"],
    "residual additions in place": CASES["residual in place"],
    "residual convolutions, added in place": CASES["convolutions, added in place"],
    "embedding": CASES["embedding"],
    "embedding with sparse gradients": CASES["embedding with sparse gradients"],
    "LSTM": CASES["lstm, two layers, both ways"],
    "GRU": CASES["gru"],
    "multi-head attention, fused": CASES["attention"],
    "transformer encoder, fused attention": CASES["transformer"],
    "transformer encoder, attention not fused": replace(CASES["transformer"], loss=unfused),
    "embedding, attention, LSTM and a head with tied weights": CASES["everything for tokens, tied"],
    "a module called several times, a parameter of a composite module": CASES["called twice, a scale of its own"],
    "parameters in lists and dictionaries": CASES["containers"],
    "frozen and unused parameters": CASES["unused and frozen"],
    "weight norm": CASES["weight norm"],
    "lazy layers": case(lambda: nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(3)), numbers(4)),
    "activation checkpoints": CASES["checkpointed"],
    "activation checkpoints, reentrant": CASES["checkpointed, reentrant"],
}
PARTLY: dict[str, Case] = {
    "embedding scaled by frequency": CASES["embedding scaled by frequency"],
    "embedding bag with offsets": CASES["embedding bag with offsets"],
}
"""Not all of whose parameters are covered."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "individual gradients": ("individual-gradients",),
    "alpha": ("alpha",),
    "histograms": ("gradient-histogram", "gradient-parameter-histogram"),
    "TIC": ("takeuchi-information",),
    "Hessian trace": ("hessian-trace",),
    "largest eigenvalue": ("largest-eigenvalue",),
}
"""Instruments by the column that tells of them."""


@dataclass(frozen=True)
class Row:
    """What a recording of one model holds."""

    share: float
    """Of its trained parameters, those whose individual gradients are seen."""
    reasons: Mapping[str, str]
    """By column of the table, why its instruments measured nothing; empty where each filled all of its columns."""


def measured(case: Case) -> Row:
    """Record a few steps with every instrument, and look at what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        short = replace(case, steps=2)  # the second step sees the far end of the first one's update
        fly(run, case.model, lambda model: case.optimizer(list(model.parameters())), short.train)
        return look(open_run(run))


def look(run: Run) -> Row:
    """What each instrument measured in a run."""
    (*_, coverage) = run.events_of("coverage")
    return Row(coverage.detail["share"], {column: missing(run, names) for column, names in COLUMNS.items()})


def missing(run: Run, names: tuple[str, ...]) -> str:
    """Why one of these instruments left a column empty; empty if none did."""
    columns = [column for each in run.instruments if each.name in names for column in each.columns]
    empty = [column for column in columns if not run.has(*column.split("."))]
    if not columns or not empty:
        return "" if columns else "not recorded"
    known = [run.null_reasons[column] for column in (*empty, "steps.grad_var") if column in run.null_reasons]
    return known[0] if known else f"{', '.join(empty)}: no reason recorded"


def table(rows: Mapping[str, Row]) -> str:
    """As Markdown, with the reasons as numbered notes below."""
    notes: dict[str, int] = {}

    def cell(reason: str) -> str:
        return f"no ({notes.setdefault(reason, len(notes) + 1)})" if reason else "yes"

    lines = [
        ["model", "parameters", *COLUMNS],
        ["---"] * (len(COLUMNS) + 2),
        *([name, percent(row.share), *map(cell, row.reasons.values())] for name, row in rows.items()),
    ]
    below = [f"{number}. {reason}" for reason, number in notes.items()]
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", *below]) + "\n"


def percent(share: float) -> str:
    """Rounded down, so that 100 % is all of them."""
    return f"{int(100 * share)} %"


def parts(readme: str) -> tuple[str, str, str]:
    """What comes before the table, the table, and what comes after it."""
    before, _, rest = readme.partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before + BEGIN, inside, END + after


def main() -> None:
    """Rewrite the README's table."""
    rows = {name: measured(case) for name, case in (MODELS | PARTLY).items()}
    before, _, after = parts(README.read_text())
    README.write_text(before + table(rows) + after)


if __name__ == "__main__":
    main()
