"""The arithmetic of the scoreboard: what counts as a hit, and how sure a rate is."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from zoo.judging import Judgement, Named

SEVERITIES = ("error", "warning", "note")
SYMPTOMS = frozenset({"LOS001", "LOS002", "LOS003", "LOS004", "LOS005", "LOS006"})
"""Codes that say how the loss went. They are true of many faults, so that they are no wrong names of any."""
SYMPTOM_KINDS = frozenset({"stalled", "diverged", "spike", "oscillating", "at-chance", "does-not-fit-one-batch"})
"""The same as kinds, for rules of other tools."""
RESAMPLES = 2000
Z = 1.959964  # of the normal distribution, 95 %

Role = Literal["faulty", "benign", "healthy", "twin"]
ROLES: tuple[Role, ...] = ("faulty", "benign", "healthy", "twin")


@dataclass(frozen=True)
class Case:
    """What is true of a variant. `kinds`: its fault, and what else is as true of it; `codes`: those that name them."""

    role: Role
    kinds: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()

    def named_by(self, named: Named) -> bool:
        """Whether this names the fault."""
        return named.code in self.codes or not set(self.kinds).isdisjoint(named.kinds)


Cases = Mapping[tuple[str, str], Case]
"""By program and variant."""


@dataclass(frozen=True)
class Marks:
    """How a judgement of a faulty run did. `delay`: steps until the fault shows in the first finding that names it."""

    hit: bool
    top: bool
    wrong: tuple[str, ...]
    delay: int | None


def marks(judgement: Judgement, case: Case) -> Marks:
    """Compare what was said with what is true. A wrong name is a root, no note, that is neither true nor a symptom."""
    right = [item for item in judgement.named if case.named_by(item)]
    roots = [item for item in judgement.named if item.root]
    wrong = [item.code for item in roots if not case.named_by(item) and item.severity != "note" and not symptom(item)]
    return Marks(
        hit=bool(right),
        top=bool(roots) and case.named_by(roots[0]),
        wrong=tuple(dict.fromkeys(wrong)),
        delay=right[0].first_step if right else None,
    )


def symptom(named: Named) -> bool:
    """Whether this says no more than how the loss went."""
    return named.code in SYMPTOMS or (bool(named.kinds) and SYMPTOM_KINDS.issuperset(named.kinds))


def alarmed(judgement: Judgement, severity: str) -> bool:
    """Whether anything was said that is at least as grave."""
    return any(SEVERITIES.index(item.severity) <= SEVERITIES.index(severity) for item in judgement.named)


@dataclass(frozen=True)
class Rate:
    """A share of runs with its 95 % interval."""

    count: int
    of: int
    low: float
    high: float

    def __str__(self) -> str:
        if self.of == 0:
            return "–"
        share = 100 * self.count / self.of
        return f"{self.count}/{self.of} ({share:.0f} %, {_percent(self.low)}–{_percent(self.high)})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if 0 < share < 0.1 else f"{100 * share:.0f}"


def wilson(count: int, of: int) -> Rate:
    """The rate with Wilson's interval, which takes the runs to be independent."""
    if of == 0:
        return Rate(0, 0, 0.0, 1.0)
    share, penalty = count / of, Z * Z / of
    middle = (share + penalty / 2) / (1 + penalty)
    half = Z * math.sqrt(share * (1 - share) / of + penalty / (4 * of)) / (1 + penalty)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Rate(count, of, 0.0 if count == 0 else low, 1.0 if count == of else high)


def clustered(flags: Iterable[tuple[str, bool]]) -> Rate:
    """The rate of flags by program, with a bootstrap interval over programs, whose runs are alike.

    Where all programs agree there is nothing to resample: Wilson's interval over the programs stands in.
    """
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for program, flag in flags:
        counts[program][0] += flag
        counts[program][1] += 1
    table = np.array(list(counts.values()), dtype=float).reshape(-1, 2)
    count, of = (int(total) for total in table.sum(axis=0))
    shares = table[:, 0] / table[:, 1]
    if np.ptp(shares) == 0 if len(shares) else True:
        whole = wilson(round(len(shares) * shares[0]) if len(shares) else 0, len(shares))
        return Rate(count, of, whole.low, whole.high)
    drawn = np.random.default_rng(0).integers(len(table), size=(RESAMPLES, len(table)))
    sums = table[drawn].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return Rate(count, of, float(low), float(high))


def select(judgements: Iterable[Judgement], cases: Cases, *roles: Role) -> list[Judgement]:
    """The judgements of runs with one of these roles."""
    return [item for item in judgements if cases[item.program, item.variant].role in roles]


def rate(judgements: Sequence[Judgement], flag: Callable[[Judgement], bool]) -> Rate:
    """Share of the judgements with the flag, over programs."""
    return clustered((item.program, flag(item)) for item in judgements)


@dataclass(frozen=True)
class Total:
    """The row of a contender. `alarms`: by role, then by severity or graver."""

    contender: str
    hit: Rate
    top: Rate
    wrong: Rate
    alarms: Mapping[str, Mapping[str, Rate]]
    delays: tuple[int, ...]

    @property
    def delay(self) -> str:
        """Median and 90th percentile of the delays, in steps."""
        if not self.delays:
            return "–"
        return f"{statistics.median(self.delays):.0f} / {np.quantile(self.delays, 0.9):.0f}"


def total(contender: str, judgements: Sequence[Judgement], cases: Cases) -> Total:
    """How a contender did on all runs."""
    faulty = select(judgements, cases, "faulty")
    marked = {item.run: marks(item, cases[item.program, item.variant]) for item in faulty}
    return Total(
        contender,
        hit=rate(faulty, lambda item: marked[item.run].hit),
        top=rate(faulty, lambda item: marked[item.run].top),
        wrong=rate(faulty, lambda item: bool(marked[item.run].wrong)),
        alarms={
            role: {
                severity: rate(select(judgements, cases, role), lambda item, s=severity: alarmed(item, s))  # type: ignore[misc]
                for severity in SEVERITIES
            }
            for role in ROLES[1:]
        },
        delays=tuple(mark.delay for mark in marked.values() if mark.delay is not None),
    )


@dataclass(frozen=True)
class RuleCount:
    """How a rule did. Runs that it could not judge, or crashed on, are not among those it judged.

    `healthy`: runs, healthy or twins, that it judged; `alarms`: of those, by severity. `right`: faulty runs that it
    named the cause of, of `faulty` with a fault that it is there for; `wrong`: others in which it was a wrong name.
    `fired`: runs of any kind, but for benign ones, in which it named a cause; `true`: those in which that was so, which
    of a symptom is any faulty run. `obstacle`: the most common reason why it could not judge a healthy run.
    """

    code: str
    healthy: int
    alarms: Mapping[str, int]
    faulty: int
    right: int
    wrong: int
    fired: int = 0
    true: int = 0
    obstacle: str = ""

    @property
    def alarm_rate(self) -> Rate:
        """Of alarms of any severity, run by run."""
        return wilson(sum(self.alarms.values()), self.healthy)


def by_rule(codes: Sequence[str], judgements: Sequence[Judgement], cases: Cases) -> list[RuleCount]:
    """The counts of every rule."""
    return [_rule(code, judgements, cases) for code in codes]


def _rule(code: str, judgements: Sequence[Judgement], cases: Cases) -> RuleCount:
    judged = [item for item in judgements if code not in item.silent and code not in item.failed]
    healthy = select(judged, cases, "healthy", "twin")
    gravest = [_gravest(code, item) for item in healthy]
    faulty = [(item, cases[item.program, item.variant]) for item in select(judgements, cases, "faulty")]
    meant = [(item, case) for item, case in faulty if code in case.codes]
    true = sum(_blamed(code, item) for item, case in faulty if code in case.codes | SYMPTOMS)
    return RuleCount(
        code,
        healthy=len(healthy),
        alarms={severity: gravest.count(severity) for severity in SEVERITIES},
        faulty=len(meant),
        right=sum(_fired(code, item) for item, _ in meant),
        wrong=sum(code in marks(item, case).wrong for item, case in faulty),
        fired=sum(_blamed(code, item) for item in select(judgements, cases, "faulty", "healthy", "twin")),
        true=true,
        obstacle=_most_common(i.silent[code] for i in select(judgements, cases, "healthy", "twin") if code in i.silent),
    )


def _fired(code: str, judgement: Judgement) -> bool:
    return any(named.code == code for named in judgement.named)


def _blamed(code: str, judgement: Judgement) -> bool:
    return any(named.code == code and named.root for named in judgement.named)


def _most_common(reasons: Iterable[str]) -> str:
    return next((f"{reason} ({count})" for reason, count in Counter(reasons).most_common(1)), "")


def _gravest(code: str, judgement: Judgement) -> str | None:
    said = [SEVERITIES.index(item.severity) for item in judgement.named if item.code == code]
    return SEVERITIES[min(said)] if said else None
