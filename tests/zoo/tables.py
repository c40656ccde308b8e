"""The tables of the scoreboard, in Markdown that reads well in a terminal too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from zoo.judging import Judgement
from zoo.tally import ROLES, SEVERITIES, Cases, RuleCount, Total, marks, select, symptom

_SHORT = {"error": "E", "warning": "W", "note": "n"}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its columns padded to the same width."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def variants(judgements: Sequence[Judgement], cases: Cases) -> str:
    """A row for each variant: what was named first, seed by seed, and what else was said."""
    grouped: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for item in judgements:
        grouped[item.program, item.variant].append(item)
    rows = []
    for key, items in sorted(grouped.items(), key=lambda pair: (ROLES.index(cases[pair[0]].role), pair[0])):
        case = cases[key]
        marked = [marks(item, case) for item in items]
        known = case.role == "faulty"
        first = [next((f"{n.code}{_SHORT[n.severity]}" for n in item.named), "·") for item in items]
        others = Counter(code for item in items for code in dict.fromkeys(n.code for n in item.named[1:]))
        rows.append(
            (
                "/".join(key),
                case.role if not case.kinds else f"{case.role}: {', '.join(case.kinds)}",
                f"{sum(mark.hit for mark in marked)}" if known else "",
                f"{sum(mark.top for mark in marked)}" if known else "",
                str(len(items)),
                " ".join(first) if len(set(first)) > 1 else f"{first[0]} (all)" if first[0] != "·" else "·",
                " ".join(f"{code}×{count}" for code, count in others.most_common()),
            )
        )
    return table(("variant", "is", "hit", "first", "runs", "named first, by seed", "others"), rows)


def kinds(judgements: Sequence[Judgement], cases: Cases) -> str:
    """A row for each kind of fault: runs, hits, and the causes named first."""
    grouped: dict[str, list[Judgement]] = defaultdict(list)
    for item in select(judgements, cases, "faulty"):
        grouped[cases[item.program, item.variant].kinds[0]].append(item)
    rows = []
    for kind, items in sorted(grouped.items()):
        marked = [marks(item, cases[item.program, item.variant]) for item in items]
        instead = Counter(
            next((n.code for n in item.named), "silent")
            for item, mark in zip(items, marked, strict=True)
            if not mark.top
        )
        cells = (kind, len(items), sum(mark.hit for mark in marked), sum(mark.top for mark in marked))
        rows.append((*map(str, cells), " ".join(f"{code}×{count}" for code, count in instead.most_common())))
    return table(("kind", "runs", "hit", "first", "first instead"), rows)


def totals(rows: Iterable[Total]) -> str:
    """A row for each contender. Intervals are 95 %, over programs."""
    header = (
        "judge", "cause named", "cause first", "a wrong name", "healthy: error", "or warning", "or note",
        "twins: error", "or warning", "or note", "benign: warning", "delay (median / 90 %)",
    )  # fmt: skip
    return table(
        header,
        (
            (
                row.contender,
                str(row.hit),
                str(row.top),
                str(row.wrong),
                *(str(row.alarms[role][severity]) for role in ("healthy", "twin") for severity in SEVERITIES),
                str(row.alarms["benign"]["warning"]),
                row.delay,
            )
            for row in rows
        ),
    )


def short(rows: Iterable[Total]) -> str:
    """The totals, with what a user of a check meets: errors, and warnings or worse."""
    header = ("judge", "cause named", "cause first", "wrong name")
    header = (*header, "healthy: error", "or warning", "twins: error", "or warning")
    return table(
        header,
        (
            (
                row.contender,
                *(str(rate) for rate in (row.hit, row.top, row.wrong)),
                *(str(row.alarms[role][grade]) for role in ("healthy", "twin") for grade in ("error", "warning")),
            )
            for row in rows
        ),
    )


def rules(counts: Iterable[RuleCount]) -> str:
    """A row for each rule. Intervals are 95 %, run by run."""
    return table(
        (
            "rule",
            "healthy judged",
            "errors",
            "warnings",
            "notes",
            "alarms",
            "faulty named",
            "wrong name in",
            "could not judge",
        ),
        (
            (
                item.code,
                str(item.healthy),
                *(str(item.alarms[severity]) for severity in SEVERITIES),
                str(item.alarm_rate),
                f"{item.right}/{item.faulty}",
                str(item.wrong),
                item.obstacle,
            )
            for item in counts
        ),
    )


def reliability(judgements: Sequence[Judgement], cases: Cases) -> str:
    """A row for each range of confidence: how often causes that were named were right, and how often they said so."""
    said: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for item in select(judgements, cases, "faulty", "healthy", "twin"):
        case = cases[item.program, item.variant]
        for named in item.named:
            if named.root and named.confidence is not None:
                place = sum(named.confidence >= edge for edge in _EDGES)
                said[place].append((named.confidence, case.named_by(named) or (bool(case.kinds) and symptom(named))))
    bounds = (0.0, *_EDGES, 1.0)
    rows = [
        (
            f"{bounds[place]:.2f} to {bounds[place + 1]:.2f}",
            str(len(found)),
            f"{sum(confidence for confidence, _ in found) / len(found):.2f}",
            f"{sum(right for _, right in found) / len(found):.2f}",
        )
        for place, found in sorted(said.items())
    ]
    return table(("confidence", "findings", "mean", "right"), rows)


_EDGES = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95)


def alarms(judgements: Sequence[Judgement], cases: Cases) -> str:
    """A line for each thing said about a healthy run or a twin."""
    lines = [
        f"{named.severity:<7} {named.code} {item.run} ({cases[item.program, item.variant].role}): {named.message}"
        for item in select(judgements, cases, "healthy", "twin")
        for named in item.named
    ]
    return "\n".join(sorted(lines)) or "none"


def silent(judgements: Iterable[Judgement]) -> str:
    """A row for each rule of a tool that could not judge some runs, with the reasons and how often."""
    reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for item in judgements:
        for rule, reason in item.silent.items():
            reasons[item.contender, rule][reason] += 1
    rows = [
        (*key, "; ".join(f"{reason} ({count} runs)" for reason, count in found.most_common(3)))
        for key, found in reasons.items()
    ]
    return table(("tool", "rule", "could not judge"), rows) if rows else "none"
