"""A run directory on a local disk or an object store.

What it holds already, and files that appear whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from . import schema

SETTLING = 1.0
"""Seconds after which nobody who found a file missing in an object store is still about to create it."""


class RunExistsError(FileExistsError):
    """The directory holds a run already."""


class RunDirectory:
    """`where` is a path, or a URI that `pyarrow.fs` understands (`s3://…`, `gs://…`, `file://…`)."""

    def __init__(self, where: str | os.PathLike[str]) -> None:
        self.where = os.fspath(where)
        if not self.where.strip():
            raise ValueError("run_dir is empty: name a directory, which need not exist")
        if "://" in self.where:
            self._fs, self._root = _file_system(self.where)
        else:
            self._fs, self._root = pyarrow.fs.LocalFileSystem(), str(Path(self.where).expanduser().absolute())
        self._local = isinstance(self._fs, pyarrow.fs.LocalFileSystem)

    def prepare(self) -> None:
        """Create the directory. Raises OSError with the path where that is impossible."""
        self._fs.create_dir(self._root, recursive=True)

    def names(self, folder: str = "") -> list[str]:
        """Names of what lies in the directory, or in one folder of it; none if it does not exist. Raises OSError."""
        if self._local and not folder:
            self._refuse_other_than_directory(Path(self._root))
        root = f"{self._root}/{folder}" if folder else self._root
        selector = pyarrow.fs.FileSelector(root, allow_not_found=True)
        return sorted(info.base_name for info in self._fs.get_file_info(selector))

    def _refuse_other_than_directory(self, path: Path) -> None:
        if path.is_symlink() and not path.exists():
            raise FileNotFoundError(f"{self.where} is a link to nowhere: mend it, or choose another directory")
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"{self.where} is a file: choose another name for the run's directory")

    def attempts(self, rank: int | None = None) -> list[int]:
        """Numbers of the attempts that began here, ascending: those with a run file or with shards (of one rank)."""
        files = [] if rank else [schema.RUN_FILE.fullmatch(name) for name in self.names()]
        shards = [schema.SHARD.fullmatch(name) for table in schema.TABLES for name in self.names(table)]
        if rank is not None:
            shards = [match for match in shards if match and int(match["rank"]) == rank]
        return sorted({int(match["attempt"]) for match in (*files, *shards) if match})

    def run_id(self) -> str:
        """Id of the run that lies here: from a run file, else from a shard; empty if neither tells."""
        for attempt in reversed(self.attempts()):
            if known := (self.run_file(attempt) or {}).get("run_id"):
                return str(known)
        for name in self.names("steps"):
            with contextlib.suppress(OSError, pa.ArrowInvalid, KeyError, TypeError):
                return self._run_id_in(f"steps/{name}")
        return ""

    def _run_id_in(self, shard: str) -> str:
        with self._fs.open_input_file(f"{self._root}/{shard}") as file:
            return str(pq.read_schema(file).metadata[b"glideslope.run_id"].decode())

    def run_file(self, attempt: int) -> dict[str, Any] | None:
        """The run file of an attempt, None while it does not exist or cannot be read."""
        return self.read_json(schema.run_file_name(attempt))

    def read_json(self, name: str) -> dict[str, Any] | None:
        """A JSON object in the directory, None while it does not exist or cannot be read."""
        try:
            with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
                content = json.loads(stream.read())
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def last_step(self) -> int | None:
        """The largest step in the finished shards of `steps`, read off their footers; None if there is none."""
        last: int | None = None
        for name in self.names("steps"):
            if name.endswith(schema.SHARD_SUFFIX) and (step := self._largest(f"steps/{name}")) is not None:
                last = step if last is None else max(last, step)
        return last

    def _largest(self, name: str) -> int | None:
        with contextlib.suppress(OSError, pa.ArrowInvalid, AttributeError, KeyError, IndexError):
            with self._fs.open_input_file(f"{self._root}/{name}") as file:
                group = pq.ParquetFile(file).metadata.row_group(0)
            columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
            return int(columns["step"].statistics.max)
        return None

    def create(self, name: str, content: bytes) -> bool:
        """Create a file; False if somebody has. A disk that refuses is no reason to: the first shard will tell.

        On a local disk one of several wins, whenever they come. An object store has no such call: there the last of
        those that come within SETTLING seconds wins.
        """
        path = f"{self._root}/{name}"
        try:
            if self._local:
                with Path(path).open("xb") as file:
                    file.write(content)
                return True
            if self._fs.get_file_info(path).type != pyarrow.fs.FileType.NotFound:
                return False
            self.write(name, content)
            time.sleep(SETTLING)
            with self._fs.open_input_stream(path) as stream:
                return bool(stream.read() == content)
        except FileExistsError:
            return False
        except OSError:
            return True

    def remove(self, name: str) -> None:
        """Delete a file of the directory. Raises OSError."""
        self._fs.delete_file(f"{self._root}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Write a file that readers see whole or not at all, also after a crash. Raises OSError."""
        path = f"{self._root}/{name}"
        self._fs.create_dir(path.rpartition("/")[0], recursive=True)
        if not self._local:  # an object store's PUT is atomic
            with self._fs.open_output_stream(path) as stream:
                stream.write(content)
            return
        unfinished = Path(f"{path}{schema.UNFINISHED}")
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON object by the same rule."""
        self.write(name, json.dumps(content, indent=1, default=str).encode())


def _file_system(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """What pyarrow reads and writes a URI with, and the path there. Raises ValueError, which says what may be done."""
    try:
        files, root = pyarrow.fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, NotImplementedError, OSError, ValueError) as error:
        words = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"pyarrow cannot write to {uri} ({words}): it knows file://, s3:// and gs://, and others that need a "
            "library or an account; mend that, or record into a directory and copy it"
        ) from None
    return files, root


def parquet(table: pa.Table, metadata: dict[str, str]) -> bytes:
    """A table as one zstd row group; dictionaries on strings only, since floats grow by them (in size and in time)."""
    strings = [
        field.name for field in table.schema if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type)
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(metadata),
        sink,
        compression="zstd",
        use_dictionary=strings or False,
        row_group_size=max(1, table.num_rows),
    )
    return bytes(sink.getvalue())
