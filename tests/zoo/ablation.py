"""Runs as they would have been recorded with fewer instruments, to see what each of them is good for.

Groups of instruments are added one after the other; each arm has those of the arms before. A column without an
instrument (the loss, the learning rates, times, the size of the batch) is in every recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl
from zoo.judging import OURS, Contender, Said, ours

from analyzer import derived
from analyzer.run import Run

GROUPS: Mapping[str, tuple[str, ...]] = {
    "norms": ("gradient-norms", "updates", "rows"),
    "audits": (
        "wiring",
        "loss-input",
        "model-input",
        "mode",
        "sample-mixing",
        "answer-in-features",
        "answer-in-sequence",
    ),
    "alpha, noise and units": (
        "individual-losses", "layer-calls", "individual-gradients", "alpha", "gradient-histogram", "units",
    ),
    "curvature": ("hessian-trace", "largest-eigenvalue", "takeuchi-information", "gradient-parameter-histogram"),
}  # fmt: skip
"""The names of instruments, from the cheapest group to the dearest. The first two are the preset `basic`."""

AUDITED = frozenset({"steps.stale_grad_norm", "steps.grad_norm_clipped", "layers.grad_norm_clipped"})
"""Columns that audits of stale gradients and of clipping record, though the instrument is that of the norms."""
EVENTS: Mapping[str, str] = {
    "wiring": "audits",
    "loss-input": "audits",
    "evaluation": "audits",
    "coverage": "alpha, noise and units",
}
"""The group that an event comes from, by its kind. The others are the recorder's own."""


def group_of(instrument: str) -> str:
    """The group of an instrument. Raises KeyError for one that has none."""
    return {name: group for group, names in GROUPS.items() for name in names}[instrument]


def veiled(run: Run, groups: frozenset[str], *, validation: bool = True) -> Run:
    """The run without what instruments outside the groups recorded, and without the metrics of validation passes."""
    kept = tuple(item for item in run.instruments if group_of(item.name) in groups)
    seen = replace(run, manifest=replace(run.manifest, instruments=kept), _tables={}, _series={}, _counts={})
    for name in run._tables:
        seen._tables[name] = _without(run, name, set(_hidden(run, groups)))
    if "events" in seen._tables:
        gone = [kind for kind, group in EVENTS.items() if group not in groups]
        seen._tables["events"] = seen._tables["events"].filter(~pl.col("kind").cast(pl.String).is_in(gone))
    if "metrics" in seen._tables and not validation:
        seen._tables["metrics"] = seen._tables["metrics"].filter(pl.col("split").cast(pl.String) == "train")
    return seen


def _hidden(run: Run, groups: frozenset[str]) -> Iterator[str]:
    """The columns that nothing fills, as `table.column`."""
    for item in run.instruments:
        for column in item.columns:
            if ("audits" if column in AUDITED else group_of(item.name)) not in groups:
                yield column


def _without(run: Run, table: str, hidden: set[str]) -> pl.LazyFrame:
    """The table with null in place of what is hidden and of what follows from it."""
    frame = run.table(table)
    nulls = [
        pl.lit(None, dtype).alias(name) for name, dtype in frame.collect_schema().items() if f"{table}.{name}" in hidden
    ]
    return derived.with_derived(table, frame.with_columns(nulls))


def _arm(groups: frozenset[str], *, validation: bool = True) -> Contender:
    judge = ours()

    def judge_veiled(run: Run) -> Said:
        return judge(veiled(run, groups, validation=validation))

    return judge_veiled


def arms() -> dict[str, Contender]:
    """Our rules with ever more instruments but for all of them, and without the metrics of validation passes."""
    groups = list(GROUPS)
    titles = ["loss only", *(f"+ {group}" for group in groups[:-1])]
    titles[2] += " (basic)"
    made = {f"{OURS}, {title}": _arm(frozenset(groups[:number])) for number, title in enumerate(titles)}
    made[f"{OURS}, no validation"] = _arm(frozenset(groups), validation=False)
    made[f"{OURS}, basic, no validation"] = _arm(frozenset(groups[:2]), validation=False)
    return made
