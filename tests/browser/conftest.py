"""Chromium, and the reports that it visits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import browser
from support.pages import judged
from support.visits import PAGES, Visit, watched

from analyzer.engine import TOOL
from analyzer.outputs.html import render_report
from analyzer.page.index import index_entry, render_index


@pytest.fixture(scope="session")
def chromium():
    reason = browser.why_absent()
    if reason and os.environ.get("CI"):
        pytest.fail(f"the report cannot be tested: {reason}")
    if reason:
        pytest.skip(reason)
    with browser.chromium() as started:
        yield started


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    written, entries = {}, []
    for name, (build, findings) in PAGES.items():
        run = build(folder / name)
        result = judged(run, *findings)
        written[name] = folder / f"{name}.html"
        written[name].write_text(render_report(run, result, tool=TOOL), encoding="utf-8")
        entries.append(index_entry(run, result, f"{name}.html"))
    written["index"] = folder / "index.html"
    written["index"].write_text(render_index(entries, title="All", tool=TOOL), encoding="utf-8")
    return written


@pytest.fixture(scope="session")
def opened(chromium, files):
    """Opens a page in a context of its own; all are closed at the end."""
    contexts = []

    def open_page(name: str, *, width: int = 1280, theme: str = "light", anchor: str = "") -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce"
        )
        context.set_default_timeout(120_000)  # others may keep the machine busy
        contexts.append(context)
        seen = watched(context.new_page())
        seen.page.goto(files[name].as_uri() + anchor)
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe():
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip("axe-playwright-python is not installed")
    return Axe()


@pytest.fixture
def visit(opened):
    """A fresh page, which a test may do anything to."""
    visits = []

    def open_page(*args, **kwargs) -> Visit:
        visits.append(opened(*args, **kwargs))
        return visits[-1]

    yield open_page
    for seen in visits:
        seen.page.close()


@pytest.fixture(scope="session")
def drawn(opened):
    """A page with everything unfolded and drawn, shared by tests that only look at it."""
    visits = {}

    def shared(name: str, theme: str = "light") -> Visit:
        if (name, theme) not in visits:
            visits[name, theme] = opened(name, theme=theme)
            visits[name, theme].draw_all()
        return visits[name, theme]

    return shared
