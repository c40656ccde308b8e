"""How a run was set up, as tables: beside the charts of the hyperparameters, and at the fold-out end of the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recorder import schema

from ..wording import count, number

if TYPE_CHECKING:
    from ..run import Event, Run

MOST_EVENTS = 60
_TOLD_ELSEWHERE = ("wiring", "loss-input", "evaluation", "coverage")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of words under a title."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def settings(run: Run) -> tuple[Table, ...]:
    """What was chosen: parameter groups, hyperparameters, targets; tables without rows are left out."""
    tables = (
        _groups(run),
        _pairs("Hyperparameters", run.manifest.hparams),
        _pairs("Targets", run.manifest.target),
    )
    return tuple(table for table in tables if table.rows)


def configuration(run: Run) -> tuple[Table, ...]:
    """What happened, and how it was recorded; tables without rows are left out."""
    tables = (
        _events(run),
        _pairs("Schedule of the recorder", run.manifest.schedule),
        _instruments(run),
        _pairs("Versions", _versions(run)),
    )
    return tuple(table for table in tables if table.rows)


def _events(run: Run) -> Table:
    events = [event for event in run.events if event.kind not in _TOLD_ELSEWHERE]
    rows = tuple(
        (count(event.step), event.kind, schema.EVENT_KINDS.get(event.kind, ""), _event_words(event))
        for event in events[:MOST_EVENTS]
    )
    rest = len(events) - MOST_EVENTS
    return Table(
        "Events",
        ("step", "kind", "meaning", "what happened"),
        rows,
        f"{count(rest)} more are not listed." if rest > 0 else "",
    )


def _event_words(event: Event) -> str:
    return event.message or (json.dumps(dict(event.detail), ensure_ascii=False)[:400] if event.detail else "")


def _groups(run: Run) -> Table:
    held = [tensor.group for tensor in run.tensors]
    rows = tuple(
        (
            str(i),
            group.type,
            number(group.lr),
            str(held.count(i)),
            ", ".join(f"{name} {_option(value)}" for name, value in group.options.items() if _says(value)),
        )
        for i, group in enumerate(run.groups[:40])
    )
    rest = len(run.groups) - len(rows)
    return Table(
        "Parameter groups",
        ("group", "optimizer", "rate at the start", "tensors", "options"),
        rows,
        f"{rest} more." if rest else "",
    )


def _says(value: Any) -> bool:
    """Whether an option is chosen: a switch that is off, or nothing, is not worth a word."""
    return value is not None and value is not False


def _option(value: Any) -> str:
    return "on" if value is True else str(value)


def _instruments(run: Run) -> Table:
    rows = []
    for instrument in run.instruments:
        for name in instrument.columns:
            table, _, column = name.partition(".")
            known = schema.TABLES[table].columns.get(column) if table in schema.TABLES else None
            rows.append(
                (
                    instrument.name,
                    name,
                    known.unit if known else "",
                    known.description if known else "unknown to this version",
                )
            )
    return Table("Instruments", ("instrument", "column", "unit", "what it measures"), tuple(rows))


def _pairs(title: str, values: Mapping[str, Any]) -> Table:
    rows = tuple(
        (str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        for name, value in values.items()
    )
    return Table(title, ("name", "value"), rows)


def _versions(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    return {"recorder": manifest.recorder, "format of the run": manifest.format, **manifest.versions}
