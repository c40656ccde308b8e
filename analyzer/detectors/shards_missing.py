"""RUN003: parts of the recording are missing, torn, or another run's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..findings import Evidence, Finding, Severity
from ..run import Run
from ..shards import BEING_WRITTEN
from ..wording import count, plural, visible
from .base import Detector


@dataclass(frozen=True)
class ShardsMissing(Detector):
    """Files of the run are torn, missing, or belong to another run: what was judged is not all there was.

    ## What it does
    Reports what could not be read: shards without a footer or with damaged bytes, gaps in the sequence numbers of a
    writer, ranks without shards, files of another run. It also compares the last step that an end file names with the
    last row, as the newest shards leave no gap when they are missing. The file that a killed run was about to write is
    no finding.

    ## Why it matters
    A rule that passes on half a recording has not judged the other half.

    ## What to try
    Copy the run directory again, after the training has ended, with all its folders and the files of all ranks.

    ## Options
    None.

    ## References
    - The naming of the shards: attempt, rank and sequence number.
    """

    code: ClassVar[str] = "RUN003"
    name: ClassVar[str] = "shards-missing"
    severity: ClassVar[Severity] = "warning"
    about_training: ClassVar[bool] = False

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding."""
        whole = run.status == "completed"
        problems = [text for text in run.problems if whole or BEING_WRITTEN not in text] + list(_cut_short(run))
        if not problems:
            return
        yield Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"The recording is not complete ({plural(len(problems), 'problem')}): {visible(problems[0])}",
            confidence=1.0,
            first_step=None,
            last_step=None,
            value=float(len(problems)),
            unit="problems",
            evidence=Evidence(tuple(visible(problem) for problem in problems[:10])),
            causes=(
                "The run was copied in part, or while it was being written",
                "The disk was full, or a node was lost",
                "Files of several runs were put into one directory",
            ),
            advice=("Copy the whole run directory again, with the shards of all ranks, after the training has ended.",),
        )


def _cut_short(run: Run) -> Iterator[str]:
    """A sentence where the newest attempt wrote more steps than there are rows."""
    ends = [end.last_step for end in run.ends if end.attempt == run.manifest.attempt and end.last_step is not None]
    last = max(ends, default=None)
    if last is not None and (run.last_step is None or run.last_step < last):
        there = "there are none" if run.last_step is None else f"the rows end at step {count(run.last_step)}"
        yield f"The training ended after step {count(last)}, but {there}: the last shards of steps/ are missing."
