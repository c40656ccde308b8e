"""Why a run has no values for a chart: the most telling reason that it recorded, as one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import derived
from ..wording import listed

if TYPE_CHECKING:
    from ..run import Run


def why_absent(run: Run, table: str, *columns: str) -> str:
    """Why none of `columns` holds a value. A derived column is missing because its ingredients are."""
    recorded = list(dict.fromkeys(name for column in columns for name in derived.ingredients(table, column)))
    if run.step_count == 0:
        return "The run recorded no step."
    empty = [name for name in recorded if not run.has(table, name)]
    reason = _recorded_reason(run, table, empty)
    if reason:
        return f"Not measured: {reason}."
    unknown = [name for name in empty if f"{table}.{name}" not in _measured(run)]
    if unknown:
        preset = f" (preset \u201c{run.manifest.preset}\u201d)" if run.manifest.preset else ""
        return f"No instrument of this run{preset} records {_quantity(table, unknown)}."
    if empty:
        return f"The run has no value of {_quantity(table, empty)}."
    return "Its ingredients were recorded, but at no step all of them together."


def _measured(run: Run) -> set[str]:
    return {column for instrument in run.instruments for column in instrument.columns}


def _recorded_reason(run: Run, table: str, columns: list[str]) -> str:
    """What the recorder itself said: columns that could not be measured, or an instrument that failed."""
    wanted = {f"{table}.{column}" for column in columns}
    for event in run.events_of("not-measured"):
        named = event.detail.get("columns")
        if isinstance(named, list) and wanted & {str(column) for column in named}:
            return str(event.detail.get("reason") or event.message).rstrip(".")
    filling = {instrument.name for instrument in run.instruments if wanted & set(instrument.columns)}
    for event in run.events_of("error"):
        if event.detail.get("instrument") in filling:
            return f"the instrument failed ({event.detail.get('exception') or event.message})".rstrip(".")
    return ""


def _quantity(table: str, columns: list[str]) -> str:
    """The columns in words, from their descriptions in the schema."""
    return listed([f"\u201c{derived.quantity(table, name)}\u201d" for name in columns], most=2)
