"""Read what a recorder wrote, without torch: open runs, judge them by rules, render the result.

    from analyzer import judge, open_run

    run = open_run("runs/digits")
    run.frame("steps", "loss", "alpha")        # a polars frame
    judge([run]).verdict                       # "pass", "fail" or "not-judged"

Importing this package imports nothing else; a name is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recorder import __version__

if TYPE_CHECKING:
    from .config import Rules, Settings
    from .engine import judge
    from .errors import ConfigError, GlideslopeError, RunError
    from .findings import Finding, Result, RunResult
    from .run import Run, open_run

__all__ = [
    "ConfigError",
    "Finding",
    "GlideslopeError",
    "Result",
    "Rules",
    "Run",
    "RunError",
    "RunResult",
    "Settings",
    "__version__",
    "judge",
    "open_run",
]

_HOMES = {
    "ConfigError": "errors",
    "Finding": "findings",
    "GlideslopeError": "errors",
    "Result": "findings",
    "Rules": "config",
    "Run": "run",
    "RunError": "errors",
    "RunResult": "findings",
    "Settings": "config",
    "judge": "engine",
    "open_run": "run",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
