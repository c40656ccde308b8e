"""The comparison of several runs: one HTML file, complete in itself like the report of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import wording
from ..comparison.build import compare
from ..page.comparison import comparison_view
from ..page.figures import Draw, live
from ..page.still import Pictures
from ..templates import render
from .html import Script, script

if TYPE_CHECKING:
    from ..findings import RunResult
    from ..run import Run


Hrefs = Sequence["str | None"]


def render_comparison(runs: Sequence[Run], results: Sequence[RunResult], *, tool: str, hrefs: Hrefs = ()) -> str:
    """The page on at least two runs and their judgements; `hrefs` lead from it to the reports that there are."""
    return _rendered(runs, results, hrefs, live, script(), tool)


def render_static_comparison(
    runs: Sequence[Run], results: Sequence[RunResult], *, tool: str, hrefs: Hrefs = (), all_charts: bool = False
) -> str:
    """The same page without script: pictures for charts, as many as fit a mail unless all are wanted."""
    pictures = Pictures(every=all_charts)
    return pictures.fill(_rendered(runs, results, hrefs, pictures.draw, None, tool))


def _rendered(
    runs: Sequence[Run], results: Sequence[RunResult], hrefs: Hrefs, draw: Draw, script: Script | None, tool: str
) -> str:
    made = compare(runs, results)
    title = " and ".join(made.names) if len(runs) == 2 else f"{wording.count(len(runs))} runs"
    return render(
        "comparison.html.jinja",
        tool=tool,
        title=title,
        view=comparison_view(made, runs, results, hrefs, draw),
        script=script,
        say=wording,
    )
