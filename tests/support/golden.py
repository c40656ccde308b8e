"""A result in which every form has something to say, and the golden files of what each says.

`python -m support.golden` writes the files anew; read the difference before it is committed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analyzer import outputs
from analyzer.baseline import against
from analyzer.engine import combine, unreadable
from analyzer.findings import ChartRef, DetectorState, Evidence, Finding, Result, RunResult
from analyzer.outputs.style import Style

FOLDER = Path(__file__).parents[1] / "analyzer" / "outputs" / "golden"
FORMATS = ("github", "junit", "markdown")

_SYMPTOM = Finding(
    code="LOS001",
    name="stalled-loss",
    severity="warning",
    message="The loss stays at 2.339 ± 0.004: 100 % of what it was, after all.",
    confidence=0.7,
    first_step=11,
    last_step=549,
)
_CAUSE = Finding(
    code="STP001",
    name="learning-rate-too-large",
    severity="error",
    message="With a learning rate of 1 the median layer moved by 643 % of its norm in one step (9).",
    confidence=0.95,
    first_step=9,
    last_step=549,
    tensors=("backbone.0.weight", "head|2.*bias*"),
    value=6.434,
    threshold=0.1,
    unit="norms",
    evidence=Evidence(("The loss began at 2.315 and reached 44.85.",), ("Nothing became infinite.",)),
    causes=("Learning rate too large", "No warm-up"),
    advice=("Divide the learning rate (1) by 3.", "Warm the rate up, then decay it."),
    chart=ChartRef("steps", "alpha", (), 1.0),
    explains=(_SYMPTOM,),
)
_NOTE = Finding(
    code="RUN004",
    name="throughput-stalls",
    severity="note",
    message="3 steps took 1.5 s each: a <b>pause</b>, 50 % of the time?",
    confidence=0.5,
)


def _states(*fired: str, **others: str) -> tuple[DetectorState, ...]:
    """States of the rules: those that fired, one that passed, and others by their reason."""
    names = {"STP001": "learning-rate-too-large", "LOS001": "stalled-loss", "RUN004": "throughput-stalls"}
    return (
        *(DetectorState(code, names[code], "fired") for code in fired),
        DetectorState("NUM001", "non-finite-values", "passed"),
        *(
            DetectorState(code, "made-up", "failed" if "Error" in reason else "not-applicable", reason)
            for code, reason in others.items()
        ),
    )


_BEFORE = RunResult(
    "runs/last night",
    "completed",
    550,
    "fail",
    (replace(_CAUSE, code="GRD001", name="exploding-gradients", explains=()), _SYMPTOM),
    _states("LOS001", GRD001="", CUR001="", NUM001="the run was too short"),
)
_COMPARED = RunResult(
    "runs/tonight",
    "completed",
    550,
    "pass",
    (_SYMPTOM, _NOTE),
    (*_states("LOS001", "RUN004"), DetectorState("GRD001", "exploding-gradients", "passed")),
)

EXAMPLE: Result = combine(
    [
        RunResult(
            "runs/too large, 1:1",
            "failed",
            550,
            "fail",
            (_CAUSE, _NOTE),
            _states("STP001", "LOS001", "RUN004", CUR001="no instrument of this run recorded steps.hess_max_ev"),
            ("steps/a00-r000-000003.parquet is torn (no readable footer): skipped; copy it again.",),
            "ValueError: \x1b[31mNaN\x1b[0m",
        ),
        RunResult("runs/healthy", "completed", 12_500, "pass", (), _states()),
        RunResult(
            "runs/odd",
            "unfinished",
            40,
            "not-judged",
            (),
            _states(ACT001="KeyError: 'x'"),
            reason="ACT001 failed to judge",
        ),
        against(_COMPARED, _BEFORE),
        unreadable("runs/gone", "runs/gone does not exist: give the directory that the recorder wrote."),
    ],
    "error",
)
"""Runs that failed, passed, were not judged, were compared with a baseline, and were not there."""


def path(name: str) -> Path:
    """The golden file of a format."""
    return FOLDER / f"{name}.txt"


def rendered(name: str) -> str:
    """The example in a format; the version of the program is not part of what is compared."""
    return outputs.named(name).render(EXAMPLE, Style()).replace(EXAMPLE.tool, "glideslope")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in FORMATS:
        path(name).write_text(rendered(name), encoding="utf-8")
