"""Forms of a result, one file each; `html` writes the page of a run, the others a result as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..config import of_name
from ..findings import Result
from . import github, json, junit, markdown, text
from .style import Style


@dataclass(frozen=True, slots=True)
class Output:
    """A format of `glideslope check --format`."""

    name: str
    render: Callable[[Result, Style], str]
    step_summary: Callable[[Result, Style], str] | None = None
    """What to append to the file that $GITHUB_STEP_SUMMARY names, where that is set."""


OUTPUTS: tuple[Output, ...] = (
    Output("text", text.render),
    Output("json", json.render),
    Output("github", github.render, github.step_summary),
    Output("junit", junit.render),
    Output("markdown", markdown.render),
)
"""The formats, the default one first."""


def named(name: str) -> Output:
    """The output of this name. Raises ConfigError, with a close match, if there is none."""
    return of_name("format", name, {output.name: output for output in OUTPUTS})
