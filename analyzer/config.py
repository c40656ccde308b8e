"""Which rules judge, and how strictly: `[tool.glideslope]` of the nearest pyproject.toml, or glideslope.toml.

    select = ["GRD", "NUM001"]     rules to apply, by code or prefix (default: all)
    ignore = ["LOS"]               rules to leave out; of two prefixes the longer counts
    require = ["WIR001"]           rules without whose judgement a run is not judged
    fail-on = "warning"            the mildest severity that fails a check (default: error)

    [rules.GRD001]                 options of a rule, as `glideslope rule GRD001` lists them
    severity = "warning"

    [rules.loss-out-of-hand]       a rule of your own, by a name of your own: see `user_rules.py`
    when = "loss > 10"

A flag of the command line stands above the file, the file above the defaults.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from .detectors.base import Detector
from .errors import ConfigError
from .findings import SEVERITIES, Severity

T = TypeVar("T")

_LISTS = ("select", "ignore", "require")
_KEYS = (*_LISTS, "fail-on", "rules")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says. `rules` holds the options of each rule, by code; `source` names the file."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    fail_on: Severity = "error"
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    source: str = "the command line"

    def overridden(
        self,
        *,
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        require: Iterable[str] = (),
        fail_on: str | None = None,
    ) -> Settings:
        """The same settings with what the command line says in place of the file's; empty means it says nothing."""
        return replace(
            self,
            select=tuple(select) or self.select,
            ignore=tuple(ignore) or self.ignore,
            require=tuple(require) or self.require,
            fail_on=self.fail_on if fail_on is None else _severity(fail_on, "--fail-on"),
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that judge, with their options set; `severities` are those a configuration gave a rule.

    `new_only`: findings that a baseline has too do not fail a run.
    """

    detectors: tuple[Detector, ...]
    severities: Mapping[str, Severity]
    required: frozenset[str]
    fail_on: Severity
    new_only: bool = False


def load(file: Path | None = None, start: Path | None = None) -> Settings:
    """Settings of `file`, or of the nearest configuration from the directory `start` (default: here) upwards.

    Raises ConfigError when the file cannot be read, or has an unknown key or a value of the wrong type.
    """
    if file is not None:
        content = _section(file) if file.name == "pyproject.toml" else _toml(file)
        if content is None:
            raise ConfigError(f"{file} has no section [tool.glideslope]: add it, or name another file.")
        return _settings(content, str(file))
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        own = folder / "glideslope.toml"
        if own.is_file():
            return _settings(_toml(own), str(own))
        project = folder / "pyproject.toml"
        if project.is_file():
            section = _section(project)
            return Settings() if section is None else _settings(section, str(project))
    return Settings()


def choose(detectors: Iterable[Detector], settings: Settings) -> Rules:
    """The rules that the settings select, with their options.

    Raises ConfigError for a code that no rule has, an option that a rule lacks, or a required rule that is left out.
    """
    known = all_rules(detectors, settings)
    codes = [detector.code for detector in known]
    for prefix in (*settings.select, *settings.ignore, *settings.require):
        check_code(prefix, codes, settings.source)
    for code in settings.rules:
        if code not in codes and "when" not in settings.rules[code]:
            own = "a rule of your own needs `when`"
            raise ConfigError(f"{settings.source}: [rules.{code}] names no rule{hint(code, codes)}; {own}.")
    chosen = tuple(_with_options(item, settings) for item in known if _selected(item.code, settings))
    required = frozenset(code for code in codes if code.startswith(settings.require or ("-",)))
    left_out = sorted(required - {item.code for item in chosen})
    if left_out:
        raise ConfigError(
            f"{settings.source}: {left_out[0]} is required but not selected: select it or do not require it."
        )
    severities = {
        code: _severity(options["severity"], f"{settings.source}: rules.{code}.severity")
        for code, options in settings.rules.items()
        if "severity" in options and code in codes
    }
    return Rules(chosen, MappingProxyType(severities), required, settings.fail_on)


def all_rules(detectors: Iterable[Detector], settings: Settings) -> tuple[Detector, ...]:
    """The rules, and those that the settings write down. Raises ConfigError where one of the latter will not do."""
    known = tuple(detectors)
    if not any("when" in options for options in settings.rules.values()):
        return known
    from .user_rules import user_rules  # it needs this module, and polars

    return (*known, *user_rules(settings.rules, known, settings.source))


def check_code(code: str, codes: Iterable[str], source: str) -> None:
    """Raises ConfigError, with a close match, if no code begins like this."""
    known = list(codes)
    if not code or not any(item.startswith(code) for item in known):
        words = (*known, *(item[:3] for item in known))
        raise ConfigError(f'{source}: no rule has the code "{code}"{hint(code, words)}; `glideslope rule` lists them.')


def hint(word: str, known: Iterable[str]) -> str:
    """` (did you mean "GRD001"?)` for the closest of the known words, or nothing."""
    by_upper = {item.upper(): item for item in known}
    close = get_close_matches(word.upper(), by_upper, n=1, cutoff=0.5)
    return f' (did you mean "{by_upper[close[0]]}"?)' if close else ""


def of_name(noun: str, name: str, known: Mapping[str, T]) -> T:
    """What stands under a name that a user gave. Raises ConfigError, with a close match, if nothing does."""
    if name not in known:
        raise ConfigError(f'there is no {noun} "{name}"{hint(name, known)}; there are {", ".join(known)}.')
    return known[name]


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror or error}).") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML ({error}).") from None


def _section(project: Path) -> Any:
    """What stands under [tool.glideslope], None if nothing does."""
    tools = _toml(project).get("tool")
    return tools.get("glideslope") if isinstance(tools, dict) else None


def _settings(content: Any, source: str) -> Settings:
    if not isinstance(content, dict):
        raise ConfigError(f"{source}: [tool.glideslope] should be a table.")
    for key in content:
        if key not in _KEYS:
            raise ConfigError(f'{source}: there is no setting "{key}"{hint(key, _KEYS)}; there are {", ".join(_KEYS)}.')
    rules = content.get("rules", {})
    if not isinstance(rules, dict) or not all(isinstance(options, dict) for options in rules.values()):
        raise ConfigError(f'{source}: "rules" should hold a table for each rule, like [rules.GRD001].')
    select, ignore, require = (_codes(content.get(key, []), f'{source}: "{key}"') for key in _LISTS)
    return Settings(
        select=select,
        ignore=ignore,
        require=require,
        fail_on=_severity(content.get("fail-on", "error"), f'{source}: "fail-on"'),
        rules=MappingProxyType({code: MappingProxyType(options) for code, options in rules.items()}),
        source=source,
    )


def _codes(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f'{where} should be a list of codes, like ["GRD", "NUM001"].')
    return tuple(value)


def _severity(value: Any, where: str) -> Severity:
    for severity in SEVERITIES:
        if value == severity:
            return severity
    raise ConfigError(f"{where} should be one of {', '.join(SEVERITIES)}, not {value!r}.")


def _selected(code: str, settings: Settings) -> bool:
    """The longest prefix that fits decides; of equally long ones `ignore` does."""
    chosen = max(
        (len(prefix) for prefix in settings.select if code.startswith(prefix)), default=-1 if settings.select else 0
    )
    ignored = max((len(prefix) for prefix in settings.ignore if code.startswith(prefix)), default=-1)
    return chosen > ignored


def _with_options(detector: Detector, settings: Settings) -> Detector:
    options = {name: value for name, value in settings.rules.get(detector.code, {}).items() if name != "severity"}
    if not options:
        return detector
    known = [item.name for item in fields(detector)]
    changes = {}
    for name, value in options.items():
        where = f"{settings.source}: rules.{detector.code}.{name}"
        key = name.replace("-", "_")
        if key not in known:
            offered = ("severity", *known)
            raise ConfigError(f"{where} is no option{hint(key, offered)}; there are {', '.join(offered)}.")
        changes[key] = _as_type_of(getattr(detector, key), value, where)
    return replace(detector, **changes)


def _as_type_of(default: Any, value: Any, where: str) -> Any:
    """The value, if it can stand in for the default: a whole number also for a number, a list for a tuple."""
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if type(value) is type(default):
        return value
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", tuple: "a list"}
    raise ConfigError(f"{where} should be {names.get(type(default), 'of another type')}, not {value!r}.")
