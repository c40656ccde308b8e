"""Rules that a configuration writes down: an SQL expression over a table, and for how long it has to hold.

[tool.glideslope.rules.loss-out-of-hand]
table = "steps"                      steps (the default), layers, modules or metrics
when = "loss > 10 AND step > 100"    an SQL expression over its columns, true where something is wrong
for = 5                              rows in succession (1 unless given), or a share of the rows, like 0.1
severity = "error"                   warning unless given
message = "The loss is above ten"    what the finding says
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from recorder import schema

from . import derived
from .config import hint
from .detectors.base import Detector
from .errors import ConfigError
from .findings import SEVERITIES, ChartRef, Evidence, Finding
from .noise import scalar
from .run import Run
from .wording import count, listed, percent, plural, step_range

TABLES = ("steps", "layers", "modules", "metrics")
"""Tables that a rule of the user's may be about."""

KEYS = ("table", "when", "for", "severity", "message")
"""What may stand under the name of a rule of the user's."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_DTYPES: Mapping[str, pl.DataType] = {
    "int64": pl.Int64(),
    "float64": pl.Float64(),
    "float32": pl.Float32(),
    "bool": pl.Boolean(),
    "string": pl.String(),
    "list<float64>": pl.List(pl.Float64),
    "list<int64>": pl.List(pl.Int64),
}


@dataclass(frozen=True)
class UserRule(Detector):
    """A rule of the configuration. Each is an instance of a subclass of its own, which carries code, name and page."""

    explains: ClassVar[tuple[str, ...]] = ()

    table: str
    when: str
    least: float
    """Rows in succession, where it is a whole number, or a share of the rows."""
    by_share: bool
    message: str

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, of the tensors (modules, metrics) for which the expression held for long enough."""
        subject = [key for key in schema.TABLES[self.table].keys if key != "step"]
        held = pl.sql_expr(self.when).fill_null(value=False).alias("held")
        rows = run.table(self.table).select("step", *subject, held).collect()
        found = self._stretches(rows, subject)
        if not found.is_empty():
            yield self._finding(rows, found, subject)

    def _stretches(self, rows: pl.DataFrame, subject: list[str]) -> pl.DataFrame:
        """Where it held for long enough, a row for each stretch or subject: `first`, `last` and `size`."""
        hits = pl.col("step").filter("held")
        if self.by_share:
            shares = rows.group_by(subject or [pl.lit(0)], maintain_order=True).agg(
                hits.first().alias("first"), hits.last().alias("last"), pl.col("held").mean().alias("size")
            )
            return shares.filter((pl.col("size") >= self.least) & pl.col("first").is_not_null())
        change = pl.col("held") != pl.col("held").shift(fill_value=False)
        stretch = (change.cum_sum().over(subject) if subject else change.cum_sum()).alias("stretch")
        return (
            rows.with_columns(stretch)
            .filter("held")
            .group_by(*subject, "stretch", maintain_order=True)
            .agg(pl.col("step").first().alias("first"), pl.col("step").last().alias("last"), pl.len().alias("size"))
            .filter(pl.col("size") >= self.least)
        )

    def _finding(self, rows: pl.DataFrame, found: pl.DataFrame, subject: list[str]) -> Finding:
        first, last = int(scalar(found["first"].min())), int(scalar(found["last"].max()))
        names = ["/".join(row) for row in found.select(subject).unique(maintain_order=True).rows()] if subject else []
        largest = scalar(found["size"].max())
        size = f"{percent(largest)} of the rows" if self.by_share else f"{plural(int(largest), 'row')} in succession"
        where = f" ({listed(names)})" if names else ""
        held = int(scalar(rows["held"].sum()))
        tensors = tuple(names) if self.table == "layers" else ()
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=f"{self.message.rstrip('.')}: {step_range(first, last)}, {size}{where}.",
            confidence=1.0,
            first_step=first,
            last_step=last,
            tensors=tensors,
            value=largest,
            threshold=self.least,
            unit="" if self.by_share else "rows",
            evidence=Evidence((f"{self.when} held in {count(held)} of {plural(rows.height, 'row')} of {self.table}.",)),
            chart=_chart(self.table, self.when, tensors),
        )

    def settings(self) -> str:
        """The rule as a configuration file writes it."""
        values: dict[str, Any] = {
            "severity": self.severity,
            "table": self.table,
            "when": self.when,
            "for": self.least if self.by_share else int(self.least),
            "message": self.message,
        }
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
        return "\n".join([f"[tool.glideslope.rules.{self.name}]", *lines])


def user_rules(tables: Mapping[str, Mapping[str, Any]], known: Iterable[Detector], source: str) -> tuple[UserRule, ...]:
    """The rules among the tables under `rules`: those that have a `when`. Their codes count them in order.

    Raises ConfigError, naming the file and the key, for a name or a value that will not do, an unknown column, or an
    expression that is no SQL or not true or false.
    """
    taken = {detector.name: detector.code for detector in known} | {item.code: item.code for item in known}
    chosen = {name: options for name, options in tables.items() if "when" in options and name not in taken.values()}
    rules = []
    for number, (name, options) in enumerate(chosen.items(), 1):
        where = f"{source}: rules.{name}"
        if name in taken:
            raise ConfigError(f"{where} has the name of {taken[name]}: give it another.")
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{where} should have a name of lower-case words with hyphens, like loss-out-of-hand.")
        rules.append(_rule(f"USR{number:03d}", name, options, where))
    return tuple(rules)


def _rule(code: str, name: str, options: Mapping[str, Any], where: str) -> UserRule:
    _check_keys(options, where)
    table = _one_of(options.get("table", "steps"), TABLES, f"{where}.table")
    severity = _one_of(options.get("severity", "warning"), SEVERITIES, f"{where}.severity")
    when = options["when"]
    message = options.get("message", f"{when} holds")
    for key, value in (("when", when), ("message", message)):
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{where}.{key} should be a string, not {value!r}.")
    columns = _columns(table, when, f"{where}.when")
    least, by_share = _least(options.get("for", 1), f"{where}.for")
    namespace = {
        "__doc__": _page(message, table, when, least, by_share=by_share),
        "code": code,
        "name": name,
        "severity": severity,
        "requires": {table: columns} if columns else {},
    }
    kind = type("ConfiguredRule", (UserRule,), namespace)
    made: UserRule = kind(table=table, when=when, least=least, by_share=by_share, message=message)
    return made


def _check_keys(options: Mapping[str, Any], where: str) -> None:
    for key in options:
        if key not in KEYS:
            raise ConfigError(f"{where}.{key} is no key of a rule{hint(key, KEYS)}; there are {', '.join(KEYS)}.")


def _one_of(value: Any, known: tuple[Any, ...], where: str) -> Any:
    if value not in known:
        close = hint(value, known) if isinstance(value, str) else ""
        raise ConfigError(f"{where} should be one of {', '.join(known)}, not {value!r}{close}.")
    return value


def _least(value: Any, where: str) -> tuple[float, bool]:
    """How long it has to hold, and whether that is a share of the rows."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return float(value), False
    if isinstance(value, float) and 0 < value <= 1:
        return value, True
    raise ConfigError(f"{where} should be a whole number of rows, or a share of them up to 1.0, not {value!r}.")


def _columns(table: str, when: str, where: str) -> tuple[str, ...]:
    """The columns that the expression needs, its keys left out. Raises ConfigError where it will not do."""
    described = dict(schema.TABLES[table].columns)
    described.update({name: item.column for name, item in derived.DERIVED.get(table, {}).items()})
    try:
        expression = pl.sql_expr(when)
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{where} is no SQL expression ({_first_line(error)}): {when}") from None
    names = list(dict.fromkeys(expression.meta.root_names()))
    for name in names:
        if name not in described:
            raise ConfigError(
                f"{where}: table {table} has no column {name!r}{hint(name, described)}; it has {', '.join(described)}."
            )
    types = {name: _DTYPES[column.dtype] for name, column in described.items()}
    try:
        result = pl.DataFrame({name: [None] for name in types}, schema=types).select(expression.alias("held"))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ConfigError(f"{where} cannot be computed ({_first_line(error)}): {when}") from None
    if result.schema["held"] != pl.Boolean:
        raise ConfigError(f"{where} should be true or false, and is {result.schema['held']}: compare it, like `> 0`.")
    return tuple(name for name in names if name not in schema.TABLES[table].keys)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _chart(table: str, when: str, tensors: tuple[str, ...]) -> ChartRef | None:
    """The chart of the first number that the expression is about."""
    if table == "modules":
        return None
    names = [name for name in pl.sql_expr(when).meta.root_names() if name not in schema.TABLES[table].keys]
    numbers = [name for name in names if derived.column(table, name).dtype in ("float64", "float32", "int64")]
    return ChartRef(table, numbers[0], tensors[:3]) if numbers and table != "metrics" else None


def _page(message: str, table: str, when: str, least: float, *, by_share: bool) -> str:
    """What `glideslope rule` prints of it, under the headings that every rule has."""
    length = f"in {percent(least)} of the rows or more" if by_share else f"in {plural(int(least), 'row')} in succession"
    return inspect.cleandoc(f"""
        {message.rstrip(".")}.

        ## What it does
        Fires where this holds {length} of the table `{table}`, for each tensor, module or metric on its own:

            {when}

        ## Why it matters
        The configuration of this project says so.
        """)
