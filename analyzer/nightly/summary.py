"""What a night found, run by run, as the site keeps it for programs and for the next night: `summary.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import GlideslopeError
from ..files import write_text
from ..findings import DetectorState, Finding, RunResult
from ..page.sparkline import Sparkline

SUMMARY_FORMAT = 1
"""Version of the file. Keys are added; it grows when one changes or goes."""
SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding in short: enough to know it again the next night."""

    code: str
    name: str
    severity: str
    message: str
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A run as of its last judgement.

    `run`: its path relative to the root; `report`: that of its report relative to the site, None if there is none, and
    `problem` says why. `fingerprint`: what the report depends on. `judged`: when, as an ISO time. `running`: whether it
    was still being written. `findings`: folded ones included, `able`: codes of the rules that judged. `new`, `gone`:
    against the judgement before, None without one. `sparkline`: the loss, `loss` its last finite value.
    """

    run: str
    report: str | None
    fingerprint: str
    judged: str
    verdict: str
    status: str
    running: bool
    steps: int
    line: str
    counts: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Mark, ...] = ()
    able: tuple[str, ...] = ()
    new: tuple[Mark, ...] | None = None
    gone: tuple[Mark, ...] | None = None
    started: str | None = None
    seconds: float = 0.0
    sparkline: Sparkline | None = None
    loss: float | None = None
    problem: str = ""

    @property
    def first(self) -> str:
        """The code of the first finding, or nothing."""
        return self.findings[0].code if self.findings else ""

    def as_result(self) -> RunResult:
        """The judgement as far as the next one is compared with it."""
        findings = tuple(
            Finding(code=m.code, name=m.name, severity=m.severity, message=m.message, confidence=1.0, tensors=m.tensors)  # type: ignore[arg-type]
            for m in self.findings
        )
        states = tuple(DetectorState(code, "", "passed") for code in self.able)
        return RunResult(self.run, self.status, self.steps, self.verdict, findings, states)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A night: when it was `made`, over which root, and every run.

    `reported`: how many runs were judged anew; `waiting`: how many were still to be when it was cut short. `lost`: runs
    of the night before that are no longer there; `closed`: directories that could not be searched.
    """

    tool: str
    root: str
    made: str
    fail_on: str
    reported: int
    runs: tuple[Entry, ...]
    waiting: int = 0
    lost: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The summary as JSON-ready data, by `summary.schema.json` in this package."""
        verdicts = [entry.verdict for entry in self.runs]
        totals = {
            "runs": len(self.runs),
            **{verdict: verdicts.count(verdict) for verdict in ("fail", "not-judged", "pass")},
            "running": sum(entry.running for entry in self.runs),
            "broken": sum(bool(entry.problem) for entry in self.runs),
        }
        return {"format": SUMMARY_FORMAT, "totals": totals, **asdict(self)}


def write_summary(summary: Summary, site: Path) -> None:
    """Writes the file whole or not at all. Raises GlideslopeError where it cannot."""
    text = json.dumps(summary.document(), indent=1, allow_nan=False)
    write_text(site / SUMMARY, text + "\n")


def read_summary(site: Path) -> Summary | None:
    """The summary of the night before, None if there was none.

    Raises GlideslopeError if a file of that name is not ours: it is not to be overwritten.
    """
    path = site / SUMMARY
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise GlideslopeError(f"{path} cannot be read ({error}): move it away, or name another directory.") from None
    ours = isinstance(content, dict) and str(content.get("tool", "")).startswith("glideslope")
    if not ours or not isinstance(content.get("runs"), list):
        raise GlideslopeError(f"{path} was not written by glideslope: name another directory with -o.")
    if content.get("format") != SUMMARY_FORMAT:
        raise GlideslopeError(f"{path} was written by {content['tool']}: use that version, or name another directory.")
    entries = (_entry(item) for item in content["runs"])
    return Summary(
        tool=content["tool"],
        root=str(content.get("root", "")),
        made=str(content.get("made", "")),
        fail_on=str(content.get("fail_on", "error")),
        reported=0,
        runs=tuple(entry for entry in entries if entry),
    )


def _entry(item: Any) -> Entry | None:
    """An entry of the file; None for one that is damaged, whose run then counts as never seen."""
    known = {part.name for part in fields(Entry)}
    try:
        values = {name: value for name, value in item.items() if name in known}
        for name in ("findings", "new", "gone"):
            values[name] = None if values.get(name) is None else tuple(_mark(mark) for mark in values[name])
        values["findings"] = values["findings"] or ()
        values["able"] = tuple(values.get("able", ()))
        line = values.get("sparkline")
        values["sparkline"] = line and Sparkline(**{**line, "bad": tuple(tuple(part) for part in line["bad"])})
        return Entry(**values)
    except (AttributeError, KeyError, TypeError):
        return None


def _mark(item: Mapping[str, Any]) -> Mark:
    return Mark(item["code"], item["name"], item["severity"], item["message"], tuple(item.get("tensors", ())))
