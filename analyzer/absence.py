"""Why a run has no values in a column: the one place that finds out, for rules, charts and `glideslope info`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from recorder import schema

from . import derived
from .wording import listed

if TYPE_CHECKING:
    from .run import Run

Cause = Literal["no step", "not measured", "no instrument", "no value", "never together"]


@dataclass(frozen=True, slots=True)
class Absence:
    """Why none of the columns that were asked for holds a value.

    `columns`: recorded columns of the table that are empty for this cause; none where each has values, but at no step
    all of them, as what is derived from them needs. `detail`: the recorder's own reason (cause "not measured"), the
    preset ("no instrument") or the instrument ("no value").
    """

    cause: Cause
    table: str
    columns: tuple[str, ...] = ()
    detail: str = ""


_NONE_THERE = {
    "modules.normalized_over": "no batch norm in training mode was seen",
    "modules.training": "no batch norm was seen",
    "modules.dead_share": "no ReLU, tanh or sigmoid was seen",
    "modules.saturated_share": "no ReLU, tanh or sigmoid was seen",
    "modules.flat_share": "no tanh or sigmoid was seen",
}
"""What a model need not have: where an instrument found none of it, there is nothing to explain."""


def absence(run: Run, table: str, *columns: str) -> Absence:
    """The most telling cause among those of the columns. A derived column is missing because its ingredients are."""
    if run.step_count == 0:
        return Absence("no step", table)
    recorded = dict.fromkeys(name for column in columns for name in derived.ingredients(table, column))
    empty = [name for name in recorded if not run.has(table, name)]
    for name in empty:
        if reason := _told(run, f"{table}.{name}"):
            return Absence("not measured", table, (name,), reason)
    filling = {name: _instrument(run, f"{table}.{name}") for name in empty}
    for name in empty:
        nothing = _NONE_THERE.get(f"{table}.{name}")
        if nothing and filling[name]:
            return Absence("not measured", table, (name,), nothing)
    if unfilled := tuple(name for name, instrument in filling.items() if not instrument):
        return Absence("no instrument", table, unfilled, run.manifest.preset or "")
    if empty:
        return Absence("no value", table, tuple(empty), filling[empty[0]])
    return Absence("never together", table)


def why_not_applicable(run: Run, table: str, column: str) -> str:
    """A clause that names a recorded column, for the reason of a rule."""
    found = absence(run, table, column)
    name = f"{table}.{(*found.columns, column)[0]}"
    preset = f' (preset "{found.detail}")' if found.detail else ""
    return {
        "no step": "the run recorded no step",
        "not measured": f"{name} was not measured ({found.detail})",
        "no instrument": f"no instrument of this run recorded {name}{preset}",
        "no value": f'the instrument "{found.detail}" recorded no value of {name}',
        "never together": f"{name} follows from none of the recorded values",
    }[found.cause]


def why_absent(run: Run, table: str, *columns: str) -> str:
    """A sentence that says what the columns measure, in place of a chart."""
    found = absence(run, table, *columns)
    quantities = listed([f"\u201c{derived.quantity(table, name)}\u201d" for name in found.columns], most=2)
    preset = f" (preset \u201c{found.detail}\u201d)" if found.detail else ""
    return {
        "no step": "The run recorded no step.",
        "not measured": f"Not measured: {found.detail}.",
        "no instrument": f"No instrument of this run{preset} records {quantities}.",
        "no value": f"The run has no value of {quantities}.",
        "never together": "Its ingredients were recorded, but at no step all of them together.",
    }[found.cause]


def why_empty(run: Run, table: str, column: str) -> str:
    """A clause to stand beside the name of a recorded column, which one of the run's instruments fills."""
    if table not in schema.TABLES or column not in schema.TABLES[table].columns:
        return "unknown to this version of glideslope"
    found = absence(run, table, column)
    if found.cause == "no step":
        return "the run recorded no step"
    if found.cause == "not measured":
        return found.detail
    if run.row_count(table) == 0:
        return f"{table} has no row"
    _, _, normally = derived.column(table, column).description.partition("; null ")
    return f"null {normally}" if normally else "no value came up, and the recorder gave no reason"


def _told(run: Run, name: str) -> str:
    """What the recorder itself said: the column could not be measured, or the instrument that fills it failed."""
    if name in run.null_reasons:
        return run.null_reasons[name].rstrip(".")
    filling = [item.name for item in run.instruments if name in item.columns]
    for event in run.events_of("error"):
        if event.detail.get("instrument") in filling:
            return f"the instrument failed ({event.detail.get('exception') or event.message})".rstrip(".")
    return ""


def _instrument(run: Run, name: str) -> str:
    """The first instrument that fills a column (`table.column`), "" if none does."""
    return next((item.name for item in run.instruments if name in item.columns), "")
