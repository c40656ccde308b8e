"""What a run recorded and how complete it is, as plain data: `glideslope info` writes it as text or as JSON."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import polars as pl

from recorder import schema

from .absence import why_empty
from .run import Run

FACTS_FORMAT = 1
"""Version of the data. Keys are added; it grows when one changes or goes."""
GAPS = 100
"""Gaps that are listed one by one; beyond it they are only counted."""


def facts(run: Run) -> dict[str, Any]:
    """Origin, attempts, steps, tables, instruments with what they measured and why not, events, coverage, problems."""
    return {
        "format": FACTS_FORMAT,
        "run": run.path,
        "status": run.status,
        "failure": run.failure,
        **_origin(run),
        "attempts": [
            {"attempt": item.attempt, "first_step": item.first_step, "started": item.started} for item in run.attempts
        ],
        "steps": _steps(run),
        "tables": {name: {"rows": run.row_count(name), "shards": run.shards_of(name)} for name in schema.TABLES},
        "instruments": [
            {"name": item.name, "columns": [_column(run, name) for name in item.columns]} for item in run.instruments
        ],
        "events": dict(Counter(event.kind for event in run.events)),
        "coverage": _coverage(run),
        "problems": list(run.problems),
    }


def _origin(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    return {
        "model": manifest.model,
        "parameters": manifest.parameters,
        "tensors": len(run.tensors),
        "recorder": manifest.recorder,
        "versions": dict(manifest.versions),
        "preset": manifest.preset,
        "mode": manifest.mode,
        "ranks": manifest.rank_count,
        "started": manifest.started,
        "host": manifest.host,
        "git_commit": manifest.git_commit,
        "command": manifest.command,
    }


def _steps(run: Run) -> dict[str, Any]:
    gaps = _gaps(run)
    frame = run.frame("steps", "duration", "probed")
    typical = frame["duration"].median()
    return {
        "count": run.step_count,
        "first": run.first_step,
        "last": run.last_step,
        "probed": int(frame["probed"].sum() or 0),
        "median_duration": typical if isinstance(typical, float) and math.isfinite(typical) else None,
        "missing": int(gaps["missing"].sum()),
        "gap_count": gaps.height,
        "gaps": [list(pair) for pair in gaps.select("first", "last").head(GAPS).rows()],
    }


def _gaps(run: Run) -> pl.DataFrame:
    """Stretches of steps without a row: first and last missing step, and how many."""
    before, after = pl.col("step").shift(), pl.col("step")
    frame = run.frame("steps").select(first=before + 1, last=after - 1, missing=after - before - 1)
    return frame.filter(pl.col("missing") > 0)


def _column(run: Run, full_name: str) -> dict[str, Any]:
    """The share of its table's rows in which a column holds a value, and the reason where in none."""
    table, _, name = full_name.partition(".")
    known = table in schema.TABLES and name in schema.TABLES[table].columns
    values = run.count(table, name) if known else 0
    share = values / run.row_count(table) if values else 0.0
    return {"column": full_name, "share": share, "reason": None if values else why_empty(run, table, name)}


def _coverage(run: Run) -> dict[str, Any] | None:
    """The share of the parameters whose individual gradients are seen, and why not the rest."""
    for event in reversed(run.events_of("coverage")):
        share, uncovered = event.detail.get("share"), event.detail.get("uncovered")
        items = [item for item in uncovered if isinstance(item, dict)] if isinstance(uncovered, list) else []
        return {
            "share": float(share) if isinstance(share, (int, float)) and 0 <= share <= 1 else None,
            "uncovered": [
                {
                    "tensor": str(item.get("tensor", "an unnamed tensor")),
                    "reason": str(item.get("reason", "no reason given")),
                }
                for item in items
            ],
        }
    return None
