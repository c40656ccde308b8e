"""`glideslope export`: the tables of a run as files for other programs, what their columns mean, and the charts.

Tables are written as they are read, a part at a time, so that a run need not fit into memory.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from recorder import schema

from .charts import CHARTS
from .config import of_name
from .derived import DERIVED
from .errors import GlideslopeError
from .files import whole_file, write_text
from .page.standalone import drawings
from .run import Run
from .wording import listed

DICTIONARY = "columns.csv"
"""The file that says what each column is."""
RUN_FILE = "run.json"
"""The run file of the newest attempt: tensors, groups, and the edges of the histograms' bins."""
PICTURES = "charts"
"""The folder of the charts."""

Show = Callable[[str], None]

_HEADER = ("table", "column", "type", "unit", "source", "description")


def export(
    run: Run, directory: Path, form: str, show: Show, *, charts: bool = False, force: bool = False
) -> tuple[Path, ...]:
    """Writes every table, resolved over attempts and ranks and with its derived columns, and says where.

    `form` is csv or parquet; lists become JSON arrays in CSV, where a number that is not finite is null. `show` is told
    what is going on. Raises GlideslopeError, before anything is written, where a file is there already (unless
    forced) or the directory cannot be used.
    """
    write = writer(form)
    tables = {name: directory / f"{name}.{form}" for name in schema.TABLES}
    about = (directory / DICTIONARY, directory / RUN_FILE)
    pictures = (directory / PICTURES,) if charts else ()
    _make_room(run, directory, (*tables.values(), *about, *pictures), force=force)
    for number, (name, path) in enumerate(tables.items(), 1):
        show(f"[{number}/{len(tables)}] {path}")
        _copy(run, name, path, write)
    write_text(directory / DICTIONARY, dictionary(form))
    write_text(directory / RUN_FILE, json.dumps(dict(run.manifest.raw), indent=2) + "\n")
    for folder in pictures:
        _draw(run, folder, show)
    return (*tables.values(), *about, *pictures)


def writer(form: str) -> Callable[[pl.LazyFrame, Path], None]:
    """What writes a table in a form. Raises ConfigError, with a close match, if there is no such form."""
    return of_name("format", form, {"csv": _write_csv, "parquet": _write_parquet})


def dictionary(form: str) -> str:
    """What each column of each table is, as CSV: its type in these files, its unit, whence it comes, its meaning."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(_HEADER)
    lines.writerows(_entries(form))
    return written.getvalue()


def _make_room(run: Run, directory: Path, files: tuple[Path, ...], *, force: bool) -> None:
    """Makes the directory. Raises GlideslopeError where it is no place for these files."""
    if directory.resolve() in [Path(run.path).resolve() / table for table in schema.TABLES]:
        raise GlideslopeError(f"{directory} is where the recorder's shards lie: name another directory with -o.")
    there = [path for path in files if path.exists()]
    if there and not force:
        exist = f"{there[0]} and {len(there) - 1} more exist" if len(there) > 1 else f"{there[0]} exists"
        raise GlideslopeError(f"{exist}: name another directory with -o, or use --force.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise GlideslopeError(f"{directory} cannot be made ({reason}): name another directory with -o.") from None


def _copy(run: Run, table: str, path: Path, write: Callable[[pl.LazyFrame, Path], None]) -> None:
    """Writes a table. Raises GlideslopeError where it can be read or written only in part."""
    try:
        with whole_file(path) as unfinished:
            write(run.table(table), unfinished)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).partition("\n")[0]
        raise GlideslopeError(
            f"{path} cannot be written ({reason}): see that the disk has room, and that {table}/ has whole shards."
        ) from None


def _draw(run: Run, folder: Path, show: Show) -> None:
    """Writes every chart that the run can fill. Raises GlideslopeError, in the end, if some could not be drawn."""
    failed = []
    for number, chart in enumerate(CHARTS, 1):
        show(f"[chart {number}/{len(CHARTS)}] {chart.title}")
        try:
            for name, picture in drawings(run, chart):
                write_text(folder / name, picture)
        except GlideslopeError:
            raise
        except Exception as error:
            failed.append(f"{chart.title} ({type(error).__name__}: {error})")
    if failed:
        raise GlideslopeError(f"{listed(failed)} could not be drawn; everything else is in {folder.parent}.")


def _entries(form: str) -> Iterator[tuple[str, ...]]:
    for table in schema.TABLES.values():
        derived = [item.column for item in DERIVED.get(table.name, {}).values()]
        for source, columns in (("recorded", table.columns.values()), ("derived", derived)):
            for column in columns:
                yield table.name, column.name, _type(column, form), column.unit, source, column.description


def _type(column: schema.Column, form: str) -> str:
    return f"{column.dtype} as a JSON array" if form == "csv" and column.dtype.startswith("list") else column.dtype


def _write_csv(frame: pl.LazyFrame, path: Path) -> None:
    lists = [name for name, dtype in frame.collect_schema().items() if isinstance(dtype, pl.List)]
    frame.with_columns(_json(name) for name in lists).sink_csv(path)


def _write_parquet(frame: pl.LazyFrame, path: Path) -> None:
    frame.sink_parquet(path)


def _json(name: str) -> pl.Expr:
    """A column of lists of numbers as JSON arrays; JSON has no word for a number that is not finite but null."""
    word = pl.when(pl.element().is_finite()).then(pl.element().cast(pl.String)).otherwise(pl.lit("null"))
    return pl.concat_str(pl.lit("["), pl.col(name).list.eval(word).list.join(","), pl.lit("]")).alias(name)
