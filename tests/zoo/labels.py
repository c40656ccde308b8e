"""What a variant counts as: by its outcome, not by what was meant. The measured outcomes lie beside this file.

A faulty variant counts as such where it ends worse than its twin: by a Welch or a Mann-Whitney test over seeds, and by
more than half a standard deviation. Where it does not, the fault did no harm, and it counts as benign. Kinds whose harm
cannot show in the outcome are exempt (`program.EXEMPT`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu, ttest_ind  # type: ignore[import-untyped]
from zoo.program import EXEMPT, Program, Variant

SIGNIFICANT = 0.05
LARGE = 0.5  # standard deviations

FIELDS = ("program", "variant", "fault", "twin", "label", "mean", "sd", "p", "effect", "outcomes")
Outcomes = Mapping[tuple[str, str], Sequence[float]]
"""By program and variant, one for each seed; what is not finite is the worst there is."""


@dataclass(frozen=True)
class Harm:
    """How much worse a variant ends than its twin: p of the more telling test, the effect in standard deviations."""

    p: float
    effect: float

    @property
    def shows(self) -> bool:
        """Whether the fault did harm."""
        return self.p < SIGNIFICANT and self.effect > LARGE


def harm(outcomes: Sequence[float], of_twin: Sequence[float]) -> Harm:
    """Compare outcomes with those of the twin. Runs that ended in nothing count as worse than any other."""
    values = np.array([*outcomes, *of_twin], dtype=float)
    finite = values[np.isfinite(values)]
    lowest, spread = (finite.min(), max(np.ptp(finite), 1e-9)) if len(finite) else (0.0, 1.0)
    values = np.where(np.isfinite(values), values, lowest - spread)
    faulty, twin = values[: len(outcomes)], values[len(outcomes) :]
    difference, sd = twin.mean() - faulty.mean(), math.sqrt((faulty.var(ddof=1) + twin.var(ddof=1)) / 2)
    if sd == 0:
        return Harm(0.0, math.copysign(math.inf, difference)) if difference else Harm(1.0, 0.0)
    p = min(ttest_ind(faulty, twin, equal_var=False).pvalue, mannwhitneyu(faulty, twin).pvalue)
    return Harm(float(p), float(difference / sd))


def label(program: Program, variant: Variant, outcomes: Outcomes) -> tuple[str, Harm | None]:
    """One of healthy, faulty, benign and exempt, with what it was judged by."""
    if variant.fault is None or variant.twin is None:
        return "healthy", None
    found = harm(outcomes[program.name, variant.name], outcomes[program.name, variant.twin])
    if variant.fault in EXEMPT:
        return "exempt", found
    return ("faulty" if found.shows else "benign"), found


def file_of(part: str) -> Path:
    """Where the outcomes of a part are kept."""
    return Path(__file__).parent / f"outcomes-{part}.csv"


def read_outcomes(part: str) -> dict[tuple[str, str], list[float]]:
    """The outcomes that were measured."""
    if not file_of(part).exists():
        return {}
    with file_of(part).open(newline="") as file:
        return {(r["program"], r["variant"]): [float(x) for x in r["outcomes"].split()] for r in csv.DictReader(file)}


def read_labels(part: str) -> dict[tuple[str, str], str]:
    """The labels by program and variant, as the outcomes that were measured give them."""
    if not file_of(part).exists():
        return {}
    with file_of(part).open(newline="") as file:
        return {(row["program"], row["variant"]): row["label"] for row in csv.DictReader(file)}


def write_outcomes(part: str, programs: Sequence[Program], outcomes: Outcomes) -> None:
    """Write the outcomes of all variants that have any, as their twins have, with their labels."""
    with file_of(part).open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for program in programs:
            known = [v for v in program.variants if (program.name, v.name) in outcomes]
            known = [v for v in known if (program.name, v.twin or v.name) in outcomes]
            table.writerows(row(program, variant, outcomes) for variant in known)


def row(program: Program, variant: Variant, outcomes: Outcomes) -> dict[str, str]:
    """A line of the table."""
    values = outcomes[program.name, variant.name]
    name, found = label(program, variant, outcomes)
    return {
        "program": program.name,
        "variant": variant.name,
        "fault": variant.fault or "",
        "twin": variant.twin or "",
        "label": name,
        "mean": f"{np.mean(values):.4g}",
        "sd": f"{np.std(values, ddof=1):.2g}" if np.isfinite(values).all() else "nan",
        "p": "" if found is None else f"{found.p:.2g}",
        "effect": "" if found is None else f"{found.effect:.3g}",
        "outcomes": " ".join(f"{value:.5g}" for value in values),
    }
