"""What tests of pages in a browser share: the pages to visit, and an open page with all that it asked for and said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.pages import bare_run, finding, full_run, hostile_finding, hostile_run, nan_run, one_step_run

from analyzer.findings import ChartRef

MANY = [f"layers.{i}.weight" for i in range(16)]
SYMPTOM = finding("GRD001", name="exploding-gradients", severity="warning", chart=ChartRef("layers", "grad_norm"))
FAULTY = finding(explains=(SYMPTOM,))

PAGES: dict[str, Any] = {
    "healthy": (full_run, ()),
    "faulty": (lambda path: full_run(path, 400, MANY), (FAULTY,)),
    "nan": (nan_run, (finding("NUM001", chart=ChartRef("steps", "loss", (), 1.0)),)),
    "one-step": (one_step_run, (finding(first_step=0, last_step=0, chart=ChartRef("steps", "loss", (), 2.0)),)),
    "bare": (bare_run, ()),
    "hostile": (hostile_run, (hostile_finding(),)),
}
"""How to make the run of each page, and its findings."""

UNFOLD = "() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })"
STATES = "() => [...document.querySelectorAll('[data-chart]')].map((slot) => slot.dataset.state ?? 'waiting')"
ALL_DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every((slot) => slot.dataset.state === 'drawn')"


@dataclass
class Visit:
    """An open page with all that it asked for and said."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def states(self) -> list[str]:
        """The state of each chart: waiting, drawing, drawn or failed."""
        return list(self.page.evaluate(STATES))

    def draw_all(self) -> None:
        """Opens every fold and waits until all is drawn, which asks for no scrolling."""
        self.page.evaluate(UNFOLD)
        self.page.wait_for_function(ALL_DRAWN)


def watched(page: Any) -> Visit:
    """A visit to a page that is yet to be opened."""
    seen = Visit(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.messages.append(message.text))
    page.on("pageerror", lambda error: seen.messages.append(str(error)))
    page.on("dialog", lambda dialog: seen.messages.append(dialog.message))
    return seen
