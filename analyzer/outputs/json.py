"""The result for programs: its document, by `result.schema.json` in this package."""

from __future__ import annotations

import json

from ..findings import Result
from .style import Style


def render(result: Result, _style: Style) -> str:
    """The document as JSON, in ASCII so that no locale can spoil it; a non-finite number would be an error here."""
    return json.dumps(result.document(), indent=2, allow_nan=False) + "\n"
