"""The comparison of several runs: one HTML file, complete in itself like the report of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import wording
from ..bundle import javascript
from ..charts.theme import CONFIG
from ..comparison.build import compare
from ..page.comparison import comparison_view
from ..page.specs import script_json
from ..templates import render
from .html import POLICY

if TYPE_CHECKING:
    from ..findings import RunResult
    from ..run import Run


def render_comparison(
    runs: Sequence[Run], results: Sequence[RunResult], *, tool: str, hrefs: Sequence[str | None] = ()
) -> str:
    """The page on at least two runs and their judgements; `hrefs` lead from it to the reports that there are."""
    made = compare(runs, results)
    title = " and ".join(made.names) if len(runs) == 2 else f"{wording.count(len(runs))} runs"
    return render(
        "comparison.html.jinja",
        tool=tool,
        policy=POLICY,
        title=title,
        view=comparison_view(made, runs, results, hrefs),
        config=script_json(CONFIG),
        javascript=javascript(),
        say=wording,
    )
