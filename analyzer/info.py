"""What a run recorded and how complete it is, as text: `glideslope info`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from recorder import schema

from .run import Run
from .wording import count, duration, listed, percent, plain, plural, step_range, visible


def describe(run: Run) -> str:
    """Attempts, steps, tables, instruments with what they measured, columns that stayed empty, gaps and problems."""
    sections = (
        _head(run),
        _attempts(run),
        _steps(run),
        _tables(run),
        _instruments(run),
        _events(run),
        _coverage(run),
        _problems(run),
    )
    blocks = ["\n".join(lines) for section in sections if (lines := list(section))]
    return plain("\n\n".join(blocks)) + "\n"


def _head(run: Run) -> Iterator[str]:
    manifest = run.manifest
    yield visible(run.path)
    facts = {
        "status": run.status + (f": {run.failure}" if run.failure else ""),
        "model": _model(run),
        "recorded": _recorded(run),
        "started": f"{manifest.started or 'unknown'} on {manifest.host or 'unknown'}",
        "commit": manifest.git_commit,
        "command": manifest.command,
    }
    for name, value in facts.items():
        if value:
            yield f"  {name:<9} {visible(value)}"


def _model(run: Run) -> str:
    parameters, tensors = count(run.manifest.parameters), plural(len(run.tensors), "tensor")
    return f"{run.manifest.model or 'unknown'}, {parameters} parameters in {tensors}"


def _recorded(run: Run) -> str:
    manifest = run.manifest
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    preset = f'preset "{manifest.preset}", ' if manifest.preset else ""
    ranks = plural(manifest.rank_count, "rank")
    return f"by recorder {manifest.recorder} ({versions}), {preset}mode {manifest.mode}, {ranks}"


def _attempts(run: Run) -> Iterator[str]:
    if len(run.attempts) < 2:
        return
    yield "attempts"
    for item in run.attempts:
        started = visible(item.started or "at an unknown time")
        yield f"  {item.attempt}: from step {count(item.first_step)}, started {started}"


def _steps(run: Run) -> Iterator[str]:
    yield "steps"
    if run.step_count == 0:
        yield "  none recorded"
        return
    yield f"  {count(run.step_count)} recorded, {step_range(run.first_step, run.last_step)}"
    gaps = _gaps(run)
    if gaps.height:
        missing = int(gaps["missing"].sum())
        ranges = [step_range(first, last) for first, last in gaps.select("first", "last").rows()]
        yield f"  {count(missing)} missing in {plural(gaps.height, 'gap')}: {listed(ranges)}"
    frame = run.frame("steps", "duration", "probed")
    probed = int(frame["probed"].sum() or 0)
    typical = frame["duration"].median()
    yield f"  {count(probed)} probed" + (f", {duration(typical)} a step (median)" if isinstance(typical, float) else "")


def _gaps(run: Run) -> pl.DataFrame:
    """Stretches of steps without a row: first and last missing step, and how many."""
    before, after = pl.col("step").shift(), pl.col("step")
    frame = run.frame("steps").select(first=before + 1, last=after - 1, missing=after - before - 1)
    return frame.filter(pl.col("missing") > 0)


def _tables(run: Run) -> Iterator[str]:
    yield "tables"
    for name in schema.TABLES:
        yield f"  {name:<9} {plural(run.row_count(name), 'row')} in {plural(run.shards_of(name), 'shard')}"


def _instruments(run: Run) -> Iterator[str]:
    """Each instrument with the share of its table's rows in which its columns hold a value."""
    if run.instruments:
        yield "instruments (share of the rows that hold a value)"
    for item in run.instruments:
        yield f"  {visible(item.name)}"
        for name in item.columns:
            yield f"    {visible(name)}  {_share(run, name)}"


def _share(run: Run, full_name: str) -> str:
    table, _, column = full_name.partition(".")
    if table not in schema.TABLES or column not in schema.TABLES[table].columns:
        return "unknown to this version of glideslope"
    values, rows = run.count(table, column), run.row_count(table)
    if values and rows:
        return percent(values / rows)
    reason = run.null_reasons.get(full_name)
    return f"nothing ({visible(reason)})" if reason else "nothing"


def _events(run: Run) -> Iterator[str]:
    counts = Counter(event.kind for event in run.events)
    if counts:
        yield "events"
        yield "  " + ", ".join(f"{visible(kind)} {count(amount)}" for kind, amount in counts.items())


def _coverage(run: Run) -> Iterator[str]:
    """The share of the parameters whose individual gradients are seen, and why not the rest."""
    for event in run.events_of("coverage")[-1:]:
        share = event.detail.get("share")
        seen = percent(share) if isinstance(share, (int, float)) else "an unknown share"
        uncovered = event.detail.get("uncovered")
        yield "individual gradients"
        yield f"  seen for {seen} of the parameters"
        for item in uncovered if isinstance(uncovered, list) else ():
            if isinstance(item, dict):
                yield f"  not for {visible(str(item.get('tensor')))}: {visible(str(item.get('reason')))}"


def _problems(run: Run) -> Iterator[str]:
    if run.problems:
        yield "problems"
    for problem in run.problems:
        yield f"  {visible(problem)}"
