"""RUN002: the recorder could not record all that it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import Evidence, Finding, Severity
from ..run import Event, Run
from ..wording import count, listed, plural, visible
from .base import Detector


@dataclass(frozen=True)
class RecorderDegraded(Detector):
    """The recorder lost an instrument, rows or probes: rules that need them judge less, or nothing.

    ## What it does
    Reads what the recorder told about itself: instruments that failed and were switched off, rows that could not be
    written and were given up, probes that needed more memory than they may hold. What an instrument cannot measure on
    a model by its nature (a compiled model, layers that mix samples) is no finding.

    ## Why it matters
    The training is untouched, but a fault that only the missing instrument shows stays unseen.

    ## What to try
    For a failed instrument see the exception, and report it. For lost rows see the disk. For memory raise
    `probe_memory`, or choose a lighter preset.

    ## Options
    None.

    ## References
    - The events `error`, `lost` and `not-measured` of the run directory.
    """

    code: ClassVar[str] = "RUN002"
    name: ClassVar[str] = "recorder-degraded"
    severity: ClassVar[Severity] = "warning"
    about_training: ClassVar[bool] = False

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        errors, lost, cramped = run.events_of("error"), run.events_of("lost"), _cramped(run)
        told = [*_failures(errors), *_losses(lost), *_overflows(cramped)]
        if not told:
            return
        events = [*errors, *lost, *cramped]
        steps = [event.step for event in events if event.step is not None]
        yield Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The recorder could not record everything: {'; '.join(told)}.",
            confidence=1.0,
            first_step=min(steps, default=None),
            last_step=max(steps, default=None),
            value=float(len(events)),
            unit="events",
            evidence=Evidence(tuple(dict.fromkeys(visible(event.message) for event in events if event.message))[:6]),
            causes=tuple(cause for kind, cause in zip((errors, lost, cramped), _CAUSES, strict=True) if kind),
            advice=tuple(advice for kind, advice in zip((errors, lost, cramped), _ADVICE, strict=True) if kind),
        )


_CAUSES = (
    "An instrument met something in the model or in its data that it cannot handle",
    "The disk was full or away for long",
    "The layers of a probe take more memory than it may hold",
)

_ADVICE = (
    "See the exception; strict=True raises it where it happens. Leave the instrument out if it cannot be mended.",
    "Make room on the disk, or record to another one.",
    "Raise probe_memory, or record with a lighter preset.",
)


def _failures(errors: tuple[Event, ...]) -> list[str]:
    names = list(dict.fromkeys(str(event.detail.get("instrument") or "the recorder itself") for event in errors))
    return [f"{listed(names)} failed"] if names else []


def _losses(lost: tuple[Event, ...]) -> list[str]:
    rows = [event.detail.get("rows") for event in lost]
    known = sum(row for row in rows if isinstance(row, int))
    return [f"{plural(known, 'row')} could not be written" if known else "rows could not be written"] if lost else []


def _overflows(cramped: tuple[Event, ...]) -> list[str]:
    steps = len({event.step for event in cramped})
    return [f"probes needed more memory than they may hold ({count(steps)} times told)"] if cramped else []


def _cramped(run: Run) -> tuple[Event, ...]:
    """What was not measured for want of memory, where nothing of it was measured in the end."""
    return tuple(
        event
        for event in run.events_of("not-measured")
        if str(event.detail.get("reason", "")).startswith(_TOO_LARGE) and not _measured(run, event)
    )


_TOO_LARGE = "a probe needs more than"
"""How the recorder begins to say that a probe's memory did not suffice."""


def _measured(run: Run, event: Event) -> bool:
    """Whether every column that the event names holds values later on: of fewer samples, as a probe is cut down to."""
    names = event.detail.get("columns")
    columns = [str(name).partition(".")[::2] for name in names] if isinstance(names, list) else []
    return bool(columns) and all(_holds(run, table, column) for table, column in columns)


def _holds(run: Run, table: str, column: str) -> bool:
    try:
        return run.has(table, column)
    except KeyError:  # a recorder of another version
        return False
