"""The jinja environment of the pages. Templates lie beside this module in the wheel, in `reports/` in a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

_PACKAGED = Path(__file__).parent / "_templates"
_CHECKOUT = Path(__file__).parent.parent / "reports" / "templates"


def template_folder() -> Path:
    """Where the templates are."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def render(name: str, **context: Any) -> str:
    """A template of the folder, filled. Everything is escaped but what is `Markup` already.

    The page is valid UTF-8 whatever the names in a run hold: a lone surrogate becomes a question mark.
    """
    page = _environment().get_template(name).render(context)
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
