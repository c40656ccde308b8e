"""Which finding is the cause of which: symptoms are folded under the cause that accounts for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .findings import SEVERITIES, Finding


def fold(findings: Iterable[Finding], explains: Mapping[str, Iterable[str]]) -> tuple[Finding, ...]:
    """Root causes, most important first, each with the symptoms it explains under it.

    `explains` says, by code, which codes a rule accounts for. It counts through rules that did not fire: what explains
    A explains B if A explains B. Every finding occurs once, under the nearest of its causes. Where two rules claim to
    explain each other, the finding that ranks higher is the cause. What is worth a note accounts for no error.
    """
    ranked = sorted(findings, key=_rank)
    reach = {code: _reachable(code, explains) for code in explains}
    causes = [
        [other for other in range(len(ranked)) if _causes(ranked, reach, other, position)]
        for position in range(len(ranked))
    ]
    parents = [max(above, key=lambda other: (len(causes[other]), -other)) if above else None for above in causes]
    roots = [_grown(position, ranked, parents) for position, parent in enumerate(parents) if parent is None]
    return tuple(sorted(roots, key=_tree_rank))


def tree(finding: Finding) -> Iterator[Finding]:
    """The finding and all that is folded under it."""
    yield finding
    for symptom in finding.explains:
        yield from tree(symptom)


def every(roots: Iterable[Finding]) -> Iterator[Finding]:
    """The findings and all that is folded under them."""
    for root in roots:
        yield from tree(root)


def _rank(finding: Finding) -> tuple[int, float, float, str]:
    """Severity, then confidence, then the first step."""
    first = float("inf") if finding.first_step is None else finding.first_step
    return SEVERITIES.index(finding.severity), -finding.confidence, first, finding.code


def _tree_rank(finding: Finding) -> tuple[int, float, float, str]:
    """A cause is as grave as the gravest that it explains."""
    gravest = min(SEVERITIES.index(item.severity) for item in tree(finding))
    return (gravest, *_rank(finding)[1:])


def _reachable(code: str, explains: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The codes that a rule explains, directly or through others, itself left out."""
    reached: set[str] = set()
    waiting = list(explains.get(code, ()))
    while waiting:
        item = waiting.pop()
        if item not in reached:
            reached.add(item)
            waiting += explains.get(item, ())
    return frozenset(reached - {code})


def _causes(ranked: Sequence[Finding], reach: Mapping[str, frozenset[str]], cause: int, symptom: int) -> bool:
    one, other = ranked[cause].code, ranked[symptom].code
    too_light = ranked[cause].severity == "note" and ranked[symptom].severity == "error"
    if too_light or other not in reach.get(one, frozenset()):
        return False
    mutual = one in reach.get(other, frozenset())
    return cause < symptom if mutual else True


def _grown(position: int, ranked: Sequence[Finding], parents: Sequence[int | None]) -> Finding:
    symptoms = [_grown(child, ranked, parents) for child, parent in enumerate(parents) if parent == position]
    return ranked[position].explaining(tuple(symptoms)) if symptoms else ranked[position]
