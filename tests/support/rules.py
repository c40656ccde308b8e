"""Small rules for the tests of what surrounds rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

from analyzer.detectors.base import Detector
from analyzer.findings import SEVERITIES, Evidence, Finding, Severity
from analyzer.run import Run


def finding(code: str = "AAA001", severity: Severity = "error", confidence: float = 0.9, **fields: Any) -> Finding:
    return Finding(
        code=code,
        name=f"fault-{code.lower()}",
        severity=severity,
        message=f"{code} fired",
        confidence=confidence,
        **fields,
    )


def full_finding() -> Finding:
    """A finding in which every field says something, one of its numbers not finite."""
    return finding(
        first_step=3,
        last_step=25,
        tensors=("0.weight",),
        value=float("inf"),
        threshold=10.0,
        unit="nat",
        evidence=Evidence(("the loss rose",), ("alpha stayed low",)),
        causes=("the rate",),
        advice=("divide it by 3",),
        explains=(finding("BBB001", "warning"),),
    )


def rule(
    code: str = "AAA001",
    found: Iterable[Finding] | Exception = (),
    *,
    severity: Severity | None = None,
    requires: Mapping[str, tuple[str, ...]] | None = None,
    explains: tuple[str, ...] = (),
    about_training: bool = True,
) -> Detector:
    """A rule that finds always the same, or raises. It has an option `limit`, 10 unless configured."""
    findings = () if isinstance(found, Exception) else tuple(found)
    gravest = min((item.severity for item in findings), key=SEVERITIES.index, default="error")

    def detect(self: Detector, run: Run) -> Iterable[Finding]:
        if isinstance(found, Exception):
            raise found
        return findings

    namespace = {
        "code": code,
        "name": f"fault-{code.lower()}",
        "severity": severity or gravest,
        "requires": requires or {},
        "explains": explains,
        "about_training": about_training,
        "detect": detect,
    }
    kind = make_dataclass(f"Rule{code}", [("limit", float, 10.0)], bases=(Detector,), namespace=namespace, frozen=True)
    made: Detector = kind()
    return made


@dataclass(frozen=True)
class Documented(Detector):
    """Something is wrong.

    ## What it does
    Compares.

    ## Options
    - `most` (3): how often.
    """

    most: int = 3
    share: float = 0.5
    kinds: tuple[str, ...] = ("a", "b")

    code = "DOC001"
    name = "documented-fault"
    severity = "warning"
    requires = {"steps": ("loss",), "layers": ("grad_norm",)}  # noqa: RUF012
    explains = ("AAA001",)
