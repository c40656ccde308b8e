"""Short names that tell runs apart: what their paths do not have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

LONGEST = 60
"""Characters; a name that is longer is cut in its middle."""


def short_names(paths: Sequence[str]) -> tuple[str, ...]:
    """A name for each path, all different: `plain` and `rate-x30` for `a/plain/seed-0` and `a/rate-x30/seed-0`."""
    parts = [_parts(path) for path in paths]
    if len(set(parts)) < 2:
        return _numbered([part[-1] for part in parts])
    head = _common(parts, min(map(len, parts)) - 1)
    tail = _common([part[::-1] for part in parts], min(map(len, parts)) - head - 1)
    return _numbered(["/".join(part[head : len(part) - tail]) or part[-1] for part in parts])


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.replace("\\", "/").split("/") if part not in ("", ".")) or (path or ".",)


def _common(sequences: Sequence[Sequence[str]], most: int) -> int:
    """How many of their first parts all have in common, at most so many."""
    return next((i for i in range(most) if len({parts[i] for parts in sequences}) > 1), most)


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """The names, cut, and numbered where they occur more than once."""
    cut = [name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[-LONGEST // 2 + 1 :]}" for name in names]
    total, seen = Counter(cut), Counter[str]()
    result = []
    for name in cut:
        seen[name] += 1
        result.append(f"{name} ({seen[name]})" if total[name] > 1 else name)
    return tuple(result)
