"""The colours of the page's style sheet as values, for pictures that stand alone: there is no sheet to look them up."""

from __future__ import annotations

import re
from functools import cache

from ..templates import template_folder

_RULE = re.compile(r":root \{(.*?)\}", re.DOTALL)
_COLOR = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
_VARIABLE = re.compile(r"var\(--([\w-]+)\)")


@cache
def light() -> dict[str, str]:
    """The light colours by name, as `report.css` defines them."""
    sheet = (template_folder() / "report.css").read_text(encoding="utf-8")
    rule = _RULE.search(sheet)
    return dict(_COLOR.findall(rule[1])) if rule else {}


def resolved(text: str) -> str:
    """The text with `var(--name)` as the light colour of that name. Raises KeyError for a name that is none."""
    return _VARIABLE.sub(lambda match: light()[match[1]], text)
