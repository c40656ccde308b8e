"""JSON files of a run, read with types checked: a hostile or damaged file ends in one sentence, not in a traceback."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from recorder import schema

from .errors import RunError

T = TypeVar("T")

MOST = 2**63 - 1
"""The largest whole number that the tables, and so the analyzer, can hold."""

REMEDY = "copy the run again from where it was recorded, or record it again"
"""What helps against a file that the recorder cannot have written like this."""

_TYPE_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


def read_object(path: Path) -> JsonObject:
    """The JSON object in a file of the run's format.

    Raises RunError when the file cannot be read, is not a JSON object, or was written by a newer recorder.
    """
    try:
        data = _printable(json.loads(path.read_bytes()))
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror or error}): check its permissions.") from None
    except (ValueError, RecursionError):
        raise RunError(f"{path} is truncated or not JSON: {REMEDY}.") from None
    if not isinstance(data, dict):
        raise RunError(f"{path} holds {_TYPE_NAMES[type(data)]} instead of a JSON object: {REMEDY}.")
    file = JsonObject(path, data)
    version = file.integer("format")
    if version > schema.FORMAT:
        raise RunError(
            f"{path} has format {version}, and this glideslope reads up to {schema.FORMAT}: "
            "install a newer one (pip install --upgrade glideslope)."
        )
    return file


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object inside a JSON file. The accessors raise RunError, naming file and key, where a value has another type.

    A key that is absent counts as null, since keys are added over time; `integer` and `text` insist on a value unless
    they get a default.
    """

    path: Path
    data: dict[str, Any]
    where: str = ""

    def integer(self, key: str, default: int | None = None, *, least: int = -MOST) -> int:
        """A whole number of 64 bits."""
        return self._present(key, self.maybe_integer(key, least=least), default)

    def maybe_integer(self, key: str, *, least: int = -MOST) -> int | None:
        """A whole number of 64 bits, or None."""
        value = self._typed(key, int)
        return None if value is None else self._within(key, value, least)

    def maybe_number(self, key: str) -> float | None:
        """A number, or None. Whole numbers too large for a float count as infinite."""
        value = self._typed(key, float)
        try:
            return None if value is None else float(value)
        except OverflowError:
            return float("inf")

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        return self._present(key, self.maybe_text(key), default)

    def maybe_text(self, key: str) -> str | None:
        """A string, or None."""
        value: str | None = self._typed(key, str)
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._typed(key, bool)
        return default if value is None else bool(value)

    def mapping(self, key: str) -> dict[str, Any]:
        """An object as plain data; empty when absent."""
        value: dict[str, Any] | None = self._typed(key, dict)
        return value or {}

    def maybe_object(self, key: str) -> JsonObject | None:
        """An object, or None."""
        value = self._typed(key, dict)
        return None if value is None else JsonObject(self.path, value, f"{self.where}{key}.")

    def objects(self, key: str) -> Iterator[JsonObject]:
        """The objects of a list; none when absent."""
        for position, item in enumerate(self._typed(key, list) or []):
            name = f"{key}[{position}]"
            self._check(name, item, dict)
            yield JsonObject(self.path, item, f"{self.where}{name}.")

    def shape(self, key: str) -> tuple[int, ...]:
        """The sizes of a tensor, whose elements can be counted in 64 bits; none when absent."""
        items = self._typed(key, list) or []
        for position, item in enumerate(items):
            self._check(f"{key}[{position}]", item, int)
            self._within(f"{key}[{position}]", item, 0)
        self._within(f"the product of {key}", math.prod(items), 0)
        return tuple(items)

    def _present(self, key: str, value: T | None, default: T | None) -> T:
        """The value, or else the default; one of them must be there."""
        found = default if value is None else value
        if found is None:
            raise RunError(f'{self.path} lacks "{self.where}{key}": {REMEDY}.')
        return found

    def _typed(self, key: str, kind: type) -> Any:
        value = self.data.get(key)
        if value is not None:
            self._check(key, value, kind)
        return value

    def _within(self, name: str, value: int, least: int) -> int:
        if not least <= value <= MOST:
            low = f"at least {least}" if value < least and least > -MOST else "of 64 bits"
            raise RunError(f'{self.path}: "{self.where}{name}" should be {low}, not {_shortened(value)}: {REMEDY}.')
        return int(value)

    def _check(self, name: str, value: Any, kind: type) -> None:
        accepted = (int, float) if kind is float else (kind,)
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            wanted, found = _TYPE_NAMES[kind], _TYPE_NAMES[type(value)]
            raise RunError(f'{self.path}: "{self.where}{name}" should be {wanted}, not {found}: {REMEDY}.')


def _shortened(value: int) -> str:
    return str(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"


def _printable(value: Any) -> Any:
    """The same data with lone surrogates replaced: JSON allows them, no output encoding does."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value
