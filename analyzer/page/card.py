"""The run card: what ran, where, how long, how it ended, and what is missing from the recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..wording import count, duration, number, plural, step_range

if TYPE_CHECKING:
    from ..manifest import GroupInfo
    from ..run import Run


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled value; `code` for names and hashes, `wide` for long ones."""

    label: str
    value: str
    detail: str = ""
    code: bool = False
    wide: bool = False


ENDINGS = {
    "completed": "Completed",
    "failed": "Failed",
    "unfinished": "Unfinished",
}
"""How a run can have ended, in a word."""


def run_facts(run: Run) -> tuple[Fact, ...]:
    """The facts of the card, in reading order; what the recorder did not know is left out."""
    return tuple(fact for fact in _facts(run) if fact.value)


def _facts(run: Run) -> Iterator[Fact]:
    manifest = run.manifest
    tensors = plural(len(run.tensors), "tensor")
    yield Fact("Model", manifest.model or "", code=True)
    yield Fact("Parameters", count(manifest.parameters) if manifest.parameters is not None else "", f"in {tensors}")
    yield Fact("Steps", count(run.step_count), step_range(run.first_step, run.last_step))
    yield Fact("Ended", ENDINGS[run.status], ended_words(run))
    yield Fact("Trained for", *_times(run))
    yield Fact("Started", _moment(manifest.started), _attempts(run))
    yield Fact("Optimizer", *optimizer_words(run.groups))
    yield Fact("Loss", manifest.loss.type if manifest.loss else "", _reduction(run), code=True)
    yield Fact("Device", manifest.device or "", _ranks(run))
    yield Fact("Host", manifest.host or "", code=True)
    yield Fact("Git commit", (manifest.git_commit or "")[:12], code=True)
    yield Fact("Recorded", f"Preset {manifest.preset}" if manifest.preset else "", schedule_words(manifest.schedule))
    yield Fact("Recorder", manifest.recorder, versions_words(manifest.versions))
    yield Fact("Purpose", "One repeated batch" if manifest.mode == "overfit-batch" else "")
    yield Fact("Command", manifest.command or "", code=True, wide=True)


def ended_words(run: Run) -> str:
    """The exception, or what an absent end file means."""
    if run.status == "failed":
        return run.failure or "with an exception that was not recorded"
    return "no end file: killed, or still running" if run.status == "unfinished" else ""


def schedule_words(schedule: Mapping[str, Any]) -> str:
    """When the instruments looked: `every step of the first 100, then every 16th`."""
    dense, every = schedule.get("dense_steps"), schedule.get("every")
    first = f"every step of the first {count(dense)}" if _whole(dense) else ""
    then = (
        ("every step" if every == 1 else f"every {_ordinal(every)} step")
        if isinstance(every, int) and every > 0
        else ""
    )
    return f"probed {', then '.join(part for part in (first, then) if part)}" if first or then else ""


def versions_words(versions: Mapping[str, str]) -> str:
    """`python 3.11.7, torch 2.13.0`."""
    return ", ".join(f"{name} {version}" for name, version in list(versions.items())[:6])


def optimizer_words(groups: tuple[GroupInfo, ...]) -> tuple[str, str]:
    """Kinds of the optimizers, and the options of the first group: `SGD`, `lr 0.1, momentum 0.9, 2 groups`."""
    if not groups:
        return "", ""
    kinds = ", ".join(dict.fromkeys(group.type or "optimizer" for group in groups))
    options = {"lr": groups[0].lr} | dict(groups[0].options)
    told = [f"{name} {_short(value)}" for name, value in options.items() if _telling(value)][:5]
    many = [plural(len(groups), "group")] if len(groups) > 1 else []
    return kinds, ", ".join(told + many)


def _times(run: Run) -> tuple[str, str]:
    times = run.frame("steps", "time", "duration").drop_nulls("time")
    if times.is_empty():
        return "", ""
    seconds = float(times["time"][-1]) + float(times["duration"][-1] or 0)
    typical = run.frame("steps", "duration")["duration"].median()
    return duration(seconds), f"{duration(typical)} a step" if isinstance(typical, float) else ""


def _moment(text: str | None) -> str:
    """An ISO time as `2026-11-30 04:30 UTC`; anything else as it stands."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return text or ""
    return f"{moment:%Y-%m-%d %H:%M} {moment.tzname() or ''}".strip()


def _attempts(run: Run) -> str:
    newest = run.manifest.attempt
    return f"resumed: attempt {newest}, from step {count(run.manifest.first_step)}" if newest else ""


def _reduction(run: Run) -> str:
    reduction = run.manifest.loss.reduction if run.manifest.loss else None
    return f"reduction {reduction}" if reduction else ""


def _ranks(run: Run) -> str:
    return plural(run.manifest.rank_count, "rank") if run.manifest.rank_count > 1 else ""


def _telling(value: Any) -> bool:
    """Whether an option says something: a number that is not zero, a switch that is on, a word."""
    return value not in (None, False, 0, "") and isinstance(value, (bool, int, float, str, list, tuple))


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "on"
    if isinstance(value, (int, float)):
        return number(_as_float(value))
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_short(item) for item in value[:4]) + ")"
    return str(value)


def _as_float(value: float) -> float:
    """The value, infinite where a whole number is too large for a float."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _ordinal(value: int) -> str:
    ending = "th" if 10 <= value % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{count(value)}{ending}"
