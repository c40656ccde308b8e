"""The facts about a run as text for people or as JSON for programs: `glideslope info`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .config import of_name
from .facts import facts
from .run import Run
from .wording import count, duration, listed, percent, plain, plural, step_range, visible

Facts = Mapping[str, Any]


def rendering(name: str) -> Callable[[Run], str]:
    """How to write the facts: `text` or `json`. Raises ConfigError, with a close match, for anything else."""
    return of_name("format", name, {"text": describe, "json": as_json})


def as_json(run: Run) -> str:
    """The facts as JSON, in ASCII so that no locale can spoil it."""
    return json.dumps(facts(run), indent=2, allow_nan=False) + "\n"


def describe(run: Run) -> str:
    """Attempts, steps, tables, instruments with what they measured or why not, events, gaps and problems."""
    known = facts(run)
    sections = (_head, _attempts, _steps, _tables, _instruments, _events, _coverage, _problems)
    return plain("\n\n".join("\n".join(lines) for section in sections if (lines := list(section(known))))) + "\n"


def _head(known: Facts) -> Iterator[str]:
    yield visible(known["run"])
    lines = {
        "status": known["status"] + (f": {known['failure']}" if known["failure"] else ""),
        "model": _model(known),
        "recorded": _recorded(known),
        "started": f"{known['started'] or 'at an unknown time'} on {known['host'] or 'an unknown machine'}",
        "commit": known["git_commit"],
        "command": known["command"],
    }
    for name, value in lines.items():
        if value:
            yield f"  {name:<9} {visible(value)}"


def _model(known: Facts) -> str:
    held = "" if known["parameters"] is None else f"{plural(known['parameters'], 'parameter')} in "
    return f"{known['model'] or 'of an unknown class'}, {held}{plural(known['tensors'], 'tensor')}"


def _recorded(known: Facts) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    parts = [
        f"by recorder {known['recorder']}" + (f" ({versions})" if versions else ""),
        f'preset "{known["preset"]}"' if known["preset"] else "",
        f"mode {known['mode']}",
        plural(known["ranks"], "rank"),
    ]
    return ", ".join(part for part in parts if part)


def _attempts(known: Facts) -> Iterator[str]:
    if len(known["attempts"]) < 2:
        return
    yield "attempts"
    for item in known["attempts"]:
        started = visible(item["started"] or "at an unknown time")
        yield f"  {item['attempt']}: from step {count(item['first_step'])}, started {started}"


def _steps(known: Facts) -> Iterator[str]:
    steps = known["steps"]
    yield "steps"
    if steps["count"] == 0:
        yield f"  none recorded{_instead(known)}"
        return
    yield f"  {count(steps['count'])} recorded, {step_range(steps['first'], steps['last'])}"
    if steps["gap_count"]:
        ranges = [step_range(first, last) for first, last in steps["gaps"]]
        yield f"  {count(steps['missing'])} missing in {plural(steps['gap_count'], 'gap')}: {listed(ranges)}"
    typical = steps["median_duration"]
    yield f"  {count(steps['probed'])} probed" + ("" if typical is None else f", {duration(typical)} a step (median)")


def _instead(known: Facts) -> str:
    """What may be behind a run without a step."""
    if known["failure"]:
        return ": the training failed before its first step ended"
    if known["problems"]:
        return ": see the problems below"
    return ": the training ended, or was killed, before its first step was written"


def _tables(known: Facts) -> Iterator[str]:
    yield "tables"
    for name, table in known["tables"].items():
        yield f"  {name:<11} {plural(table['rows'], 'row')} in {plural(table['shards'], 'shard')}"


def _instruments(known: Facts) -> Iterator[str]:
    """Each instrument with the share of its table's rows in which its columns hold a value."""
    if not known["instruments"]:
        yield "instruments: the run file names none"
        return
    yield "instruments, and in which share of the rows their columns hold a value"
    for item in known["instruments"]:
        yield f"  {visible(item['name'])}" + ("" if item["columns"] else "  (no column of its own)")
        wide = max((len(visible(column["column"])) for column in item["columns"]), default=0)
        for column in item["columns"]:
            found = f"nothing: {visible(column['reason'])}" if column["reason"] else percent(column["share"])
            yield f"    {visible(column['column']):<{wide}}  {found}"


def _events(known: Facts) -> Iterator[str]:
    if known["events"]:
        yield "events"
        yield "  " + ", ".join(f"{count(amount)} {visible(kind)}" for kind, amount in known["events"].items())


def _coverage(known: Facts) -> Iterator[str]:
    coverage = known["coverage"]
    if coverage is None:
        return
    yield "individual gradients"
    seen = "an unknown share" if coverage["share"] is None else percent(coverage["share"])
    yield f"  seen for {seen} of the parameters"
    for item in coverage["uncovered"]:
        yield f"  not for {visible(item['tensor'])}: {visible(item['reason'])}"


def _problems(known: Facts) -> Iterator[str]:
    if known["problems"]:
        yield "problems"
    for problem in known["problems"]:
        yield f"  {visible(problem)}"
