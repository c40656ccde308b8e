"""What the rules say about themselves: a list of them, and the page of one, made from its docstring and its fields."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from .calibration import sentences
from .config import hint
from .detectors.base import Detector
from .errors import ConfigError
from .outputs.style import Style
from .user_rules import UserRule
from .wording import listed, plain

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def find(wanted: str, detectors: Iterable[Detector]) -> tuple[Detector, ...]:
    """The rule of this code or name, or those whose code begins like this or whose name holds it.

    Raises ConfigError, with the rules of the family or else a close match, where there is none.
    """
    known = tuple(detectors)
    word = wanted.strip()
    found = tuple(item for item in known if word.upper() == item.code or word.lower() == item.name)
    found = found or tuple(item for item in known if word and item.code.startswith(word.upper()))
    found = found or tuple(item for item in known if word and word.lower() in item.name)
    if not found:
        raise ConfigError(f'there is no rule "{wanted}"{_instead(word, known)}; `glideslope rule` lists them.')
    return found


def _instead(word: str, known: Sequence[Detector]) -> str:
    family = [item.code for item in known if item.code[:3] == word[:3].upper()]
    if family and word[3:].isdecimal():
        return f" ({word[:3].upper()} has {listed(family)})"
    codes = [item.code for item in known]
    return hint(word, [*codes, *dict.fromkeys(code[:3] for code in codes), *(item.name for item in known)])


def listing(detectors: Sequence[Detector]) -> str:
    """A line for each rule: code, severity, name, and the first sentence of its page."""
    wide = max((len(item.name) for item in detectors), default=0)
    lines = [f"{item.code}  {item.severity:<7}  {item.name:<{wide}}  {_summary(item)}".rstrip() for item in detectors]
    return "\n".join([*lines, "", "`glideslope rule CODE` explains one."])


def page(detector: Detector, style: Style) -> str:
    """The page of a rule: its docstring, how often it erred, and its options as a configuration would set them."""
    title = f"{detector.code} {detector.name} ({detector.severity})"
    body = _HEADING.sub(lambda match: style.paint(match[1], bold=True), documentation(detector))
    measured = plain("\n".join(sentences(detector.code)))
    parts = [style.paint(title, bold=True), body, measured, _needs(detector), _options(detector)]
    return "\n\n".join(part for part in parts if part)


def documentation(detector: Detector) -> str:
    """The docstring of the rule's class, without its indentation."""
    return inspect.cleandoc(type(detector).__doc__ or "")


def _summary(detector: Detector) -> str:
    """The first line of the docstring."""
    return documentation(detector).partition("\n")[0]


def _needs(detector: Detector) -> str:
    columns = [f"{table}.{name}" for table, names in detector.requires.items() for name in names]
    explains = f"Explains: {', '.join(detector.explains)}" if detector.explains else ""
    return "\n".join(line for line in (f"Needs: {', '.join(columns)}" if columns else "", explains) if line)


def _options(detector: Detector) -> str:
    if isinstance(detector, UserRule):
        return detector.settings()
    lines = [f"[tool.glideslope.rules.{detector.code}]  # in pyproject.toml; the defaults"]
    lines.append(f'severity = "{detector.severity}"')
    lines += [f"{item.name} = {_toml(getattr(detector, item.name))}" for item in fields(detector)]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """A default as TOML writes it: for what options are made of, the same as JSON."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)
