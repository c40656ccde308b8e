"""RUN001: a training that crashed, was killed, or still runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from ..findings import Evidence, Finding, Severity
from ..noise import scalar
from ..run import Run
from ..wording import count, duration, visible
from .base import Detector


@dataclass(frozen=True)
class RunNotFinished(Detector):
    """The training did not reach its end: an exception ended it, or its process was killed.

    ## What it does
    Reads the end files of the newest attempt. One with an exception is a crash. Where there is none the run was killed
    or goes on: its process is looked for if the run was recorded on this machine; elsewhere the age of what was
    recorded last decides, against `patience` and the longest pause that the run had made so far. A run that goes on is
    a note. The user's own interruption is a warning, and so is a silence that the copying of a living run would leave.

    ## Why it matters
    What such a run shows is what it got to. Whoever judges its last loss judges something else than what was meant.

    ## What to try
    Read the exception. After a kill without a signal look for the memory (the kernel's log, the job's accounting) and
    for the time limit of the job. Go on from the last checkpoint with `resume=True`.

    ## Options
    - `patience` (900 seconds): a guess, three times the longest interval between two flushes of the recorder.
    - `pauses` (3): a silence this many times as long as the longest pause before is no pause. A guess.

    ## References
    - The end file and the flush intervals of the run directory.
    """

    code: ClassVar[str] = "RUN001"
    name: ClassVar[str] = "run-not-finished"
    severity: ClassVar[Severity] = "error"
    about_training: ClassVar[bool] = False

    patience: float = 900.0
    """Seconds without a sign of life."""
    pauses: float = 3.0
    """Times the longest pause of the run."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        if run.status == "failed":
            yield self._failed(run, visible(run.failure or "an exception that was not recorded"))
        elif run.status == "unfinished":
            yield self._unfinished(run)

    def _failed(self, run: Run, failure: str) -> Finding:
        stopped = failure.startswith(_STOPPED)
        return self._finding(
            run,
            "warning" if stopped else "error",
            f"The training {'was interrupted' if stopped else 'crashed'} {_where(run)}: {failure}",
            1.0,
            Evidence((f"The end file holds the exception: {failure}",)),
            ("It was stopped by hand",) if stopped else _causes(failure),
            ("Go on from the last checkpoint with resume=True.",)
            if stopped
            else ("Read the exception, and the rules that fired in the steps before it.", "Mend it and run again."),
        )

    def _unfinished(self, run: Run) -> Finding:
        signals = [str(event.detail.get("signal") or event.message) for event in run.events_of("signal")]
        alive, age = _alive(run), _age(run)
        silent = age is not None and age > timedelta(seconds=self._patience(run))
        told = "" if age is None else f"; the last sign of it is {duration(age.total_seconds())} old"
        if alive is not False and not silent:
            return self._finding(
                run,
                "note",
                f"The training has no end file and seems to go on {_where(run)}{told}: judged is what there is.",
                0.9 if alive else 0.7,
                Evidence(_process(run, alive), ()),
                ("The training is still running",),
                ("Judge it again when it has ended.",),
            )
        asked = f" after {signals[-1]}" if signals else ""
        causes = ("It was asked to stop: the time limit of the job, a preemption, or a person",) if signals else ()
        return self._finding(
            run,
            "error" if alive is False else "warning",
            f"The process of the training ended{asked} {_where(run)} without closing the run{told}."
            if alive is False
            else f"The training has no end file and went silent{asked} {_where(run)}{told}.",
            0.97 if alive is False else 0.85,
            Evidence(
                (*_process(run, alive), "No end file was written, as a run that ends or raises does."),
                () if alive is False else ("A copy that was made while the training ran would look the same.",),
            ),
            (*causes, "Killed for the memory it took", "The node was lost, or the job's time was up"),
            (
                "Look into the log of the job and of the kernel (out of memory), and at the job's limits.",
                "Go on from the last checkpoint with resume=True.",
            ),
        )

    def _patience(self, run: Run) -> float:
        """Seconds of silence that prove the end: more than any pause the run had made."""
        longest = scalar(run.frame("steps", "time")["time"].diff().max())
        return max(self.patience, self.pauses * longest) if longest < float("inf") else self.patience

    def _finding(
        self,
        run: Run,
        severity: Severity,
        message: str,
        confidence: float,
        evidence: Evidence,
        causes: tuple[str, ...],
        advice: tuple[str, ...],
    ) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            message=message,
            confidence=confidence,
            first_step=run.last_step,
            last_step=run.last_step,
            evidence=evidence,
            causes=causes,
            advice=advice,
        )


_STOPPED = ("KeyboardInterrupt",)

_CAUSES = (
    (("SIGTERM",), "It was asked to stop: the time limit of the job, a preemption, or a person"),
    (("out of memory", "OutOfMemory", "MemoryError"), "The memory did not suffice: batch, model or a graph that grows"),
    (("device-side assert", "IndexError", "out of range", "out of bounds"), "A label or an index out of range"),
    (("shape", "size mismatch", "must match"), "Shapes that do not fit, perhaps in a last batch that is smaller"),
    (("DataLoader", "FileNotFound", "No such file"), "The data could not be loaded"),
    (("NCCL", "Timeout", "timed out", "Connection"), "Another rank failed, or the network between the ranks"),
)


def _causes(failure: str) -> tuple[str, ...]:
    """What an exception points to, by its words."""
    known = tuple(cause for words, cause in _CAUSES if any(word in failure for word in words))
    return known or ("An error in the program, or in what it was given",)


def _where(run: Run) -> str:
    return "before its first step" if run.last_step is None else f"after step {count(run.last_step)}"


def _age(run: Run) -> timedelta | None:
    """How long ago the run last recorded anything."""
    return None if run.last_sign is None else max(timedelta(0), run.opened - run.last_sign)


def _alive(run: Run) -> bool | None:
    """Whether the process of the run exists; None if it was another machine's, or cannot be looked for."""
    pid = run.manifest.pid
    if run.manifest.host != socket.gethostname() or pid is None or pid <= 0 or os.name != "posix":
        return None
    try:
        os.kill(pid, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _process(run: Run, alive: bool | None) -> tuple[str, ...]:
    """A sentence on the process, where it could be looked for."""
    if alive is None:
        return ()
    return (f"Process {run.manifest.pid} {'exists' if alive else 'no longer exists'} on this machine.",)
