"""Files that the analyzer writes: whole or not at all, and never over something that is not its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from .errors import GlideslopeError

GENERATOR = '<meta name="generator" content="glideslope'
"""How a page of ours begins its mark; it stands in the first bytes of the page."""
_HEAD = 4096


def write_page(path: Path, page: str, *, force: bool = False) -> None:
    """Writes an HTML page of ours. Raises GlideslopeError if something else is in its place, unless forced."""
    if path.is_dir():
        raise GlideslopeError(f"{path} is a directory: give the name of a file.")
    if path.exists() and not force and not is_ours(path):
        raise GlideslopeError(
            f"{path} exists and was not written by glideslope: name another file with -o, or use --force."
        )
    write_text(path, page)


def write_text(path: Path, text: str) -> None:
    """Writes a file so that readers see the old or the new one, never half; directories that are missing are made.

    Raises GlideslopeError where it cannot.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe or a device, such as /dev/stdout
            path.write_text(text, encoding="utf-8", errors="replace")
            return
        replace_file(path.resolve(), text.encode("utf-8", "replace"))
    except OSError as error:
        raise GlideslopeError(f"{path} cannot be written ({error.strerror or error}): name another file.") from None


def append_text(path: Path, text: str) -> None:
    """Adds to the end of a file, which is made if it is missing. Raises GlideslopeError where it cannot."""
    try:
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise GlideslopeError(f"{path} cannot be written ({error.strerror or error}): check its permissions.") from None


def link(page: Path, target: Path) -> str | None:
    """A relative link from one file to another, quoted for HTML pages; None where no relative path leads there."""
    try:
        relative = os.path.relpath(target.absolute(), page.absolute().parent)
    except ValueError:  # another drive
        return None
    return quoted(Path(relative).as_posix())


def quoted(path: str) -> str:
    """A path as a link; names that are no Unicode too."""
    return quote(os.fsencode(path), safe="/")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place to write a file in, which then gets its name: readers see the old or the new one, never half.

    Raises GlideslopeError where it cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise GlideslopeError(f"{path} cannot be written ({reason}): name another directory.") from None
    finally:
        unfinished.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """The new content under the old name, with the permissions that a new file would have. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        unfinished.chmod(0o666 & ~mask)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def is_ours(path: Path) -> bool:
    """Whether a page was written by glideslope."""
    try:
        with path.open("rb") as file:
            return GENERATOR.encode() in file.read(_HEAD)
    except OSError:
        return False
