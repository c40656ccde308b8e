"""What a training suffered, whatever the cause: the second witness of rules that know a mechanism."""

from __future__ import annotations

from .overshoot import broken, harm
from .phases import phases
from .progress import measured, uninformed
from .run import Run
from .wording import number, percent


def suffering(run: Run, learned: float = 0.0) -> str | None:
    """A clause on how the run fared badly, None if it did not or if that cannot be told.

    It did if it did not stay finite, learned next to nothing, was harmed for good, or learned less than a share of
    `learned` of what there was to learn.
    """
    if broken(run) is not None:
        return "the run did not stay finite"
    progress, phase = measured(run), phases(run)
    if progress is None:
        return None
    if uninformed(run, progress):
        return f"next to nothing was learned (loss {number(progress.end.value)} at the end)"
    damage = None if phase is None else harm(run, progress, phase)
    if damage is not None and not damage.recovered:
        return f"the loss suffered (from {number(damage.start)} to {number(damage.level)}, {damage.kind})"
    if progress.learned < learned:
        return (
            f"only {percent(max(0.0, progress.learned))} of the loss of {number(progress.reference)} was learned away"
        )
    return None
