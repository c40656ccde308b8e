"""Runs that lie elsewhere: what a URI points at is copied to this machine before it is read."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit
from urllib.request import url2pathname

from recorder import schema

from .directory import GIVE
from .errors import RunError

PACKAGES = {
    "s3": ("s3fs", "glideslope[s3]"),
    "s3a": ("s3fs", "glideslope[s3]"),
    "gs": ("gcsfs", "gcsfs"),
    "gcs": ("gcsfs", "gcsfs"),
    "abfs": ("adlfs", "adlfs"),
    "az": ("adlfs", "adlfs"),
    "http": ("aiohttp", "fsspec[http]"),
    "https": ("aiohttp", "fsspec[http]"),
    "memory": ("fsspec", "fsspec"),
}
"""Which package fsspec reads a scheme with, and what to install."""


def is_uri(path: str | Path) -> bool:
    """Whether this is a URI, such as `s3://bucket/runs/digits`."""
    return isinstance(path, str) and "://" in path


def fetch(uri: str) -> tuple[Path, TemporaryDirectory[str] | None]:
    """The run's directory on this machine, and what removes the copy when it is no longer referred to.

    `file://` needs no copy. Raises RunError where fsspec, or what it needs for this kind of URI, is not installed, and
    where nothing can be read.
    """
    if urlsplit(uri).scheme == "file" and urlsplit(uri).path:
        return Path(url2pathname(urlsplit(uri).path)), None
    copy = TemporaryDirectory(prefix="glideslope-")
    target = Path(copy.name)
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(uri)
        for name in files.find(root):
            part = name.removeprefix(root).lstrip("/")
            if _belongs(part):
                (target / part).parent.mkdir(exist_ok=True)
                files.get_file(name, str(target / part))
    except ImportError as error:
        raise RunError(f"{uri}: {_missing(urlsplit(uri).scheme, error)}, or copy the run to this machine.") from None
    except Exception as error:  # each kind of storage has errors of its own
        words = str(error).strip().partition("\n")[0] or type(error).__name__
        raise RunError(f"{uri} cannot be read ({words}): check the address, or copy the run to this machine.") from None
    if not any(target.iterdir()):
        raise RunError(f"{uri} holds no run: {GIVE}.")
    return target, copy


def _missing(scheme: str, error: ImportError) -> str:
    """Which package reads URIs of this scheme, and how to install it; for other schemes what fsspec says itself."""
    if scheme not in PACKAGES:
        return f"{str(error).rstrip('.')}: install it"
    package, requirement = PACKAGES[scheme]
    return f"reading {scheme}:// needs {package}: pip install '{requirement}'"


def _belongs(part: str) -> bool:
    """Whether a file is part of a run; checkpoints and the like beside it are not copied."""
    folder, _, name = part.rpartition("/")
    if folder:
        return folder in schema.TABLES and name.endswith(schema.SHARD_SUFFIX)
    return bool(schema.RUN_FILE.fullmatch(name) or schema.END_FILE.fullmatch(name))
