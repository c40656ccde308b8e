"""What a rule is: a frozen dataclass with static metadata, its options as fields, and one pure function of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ..findings import Finding, Severity
    from ..run import Run


@dataclass(frozen=True)
class Detector:
    """A rule. Subclasses live one to a file, are listed in `detectors/__init__.py`, and document themselves.

    The class docstring has the headings *What it does*, *Why it matters*, *What to try*, *Options*, *References*;
    `glideslope rule CODE` and the report print it. Dataclass fields are the options that a configuration may set.
    """

    code: ClassVar[str]
    """Three letters of a family and three digits; never reused."""
    name: ClassVar[str]
    """The failing state as a noun phrase, lower case with hyphens: "exploding-gradients"."""
    severity: ClassVar[Severity]
    """Severity of its gravest finding."""
    requires: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Columns by table that must hold a value somewhere; without them the engine reports "not applicable"."""
    explains: ClassVar[tuple[str, ...]] = ()
    """Codes of the symptoms that this cause accounts for when both fire; they are folded under it."""
    about_training: ClassVar[bool] = True
    """False for rules about the recording itself: they alone do not make a run judged."""

    def detect(self, run: Run) -> Iterable[Finding]:
        """Findings of this rule, none if the run is fine.

        Raises NotApplicable, with the reason, where the run cannot be judged (too short, an exempt phase, ...).
        """
        raise NotImplementedError
