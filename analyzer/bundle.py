"""The script of the pages: bundling it takes more than a second, so it is kept for the next time."""

from __future__ import annotations

import gzip
import os
import zlib
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup

from .files import replace_file

EXPORT = "window.vegaEmbed = vegaEmbed;"
"""What of the bundle the page's own script uses."""


@cache
def javascript() -> Markup:
    """Vega, Vega-Lite and Vega-Embed as one script, wrapped so that its minified names stay its own.

    It comes from the installed vl-convert, so no copy of it is shipped, and no page loads it from elsewhere.
    """
    folder = cache_folder()
    bundle = bundled() if folder is None else kept(folder)
    return Markup("(()=>{" + bundle.replace("</script", "<\\/script") + "})();")


def cache_folder() -> Path | None:
    """Where this user's programs keep what they can make anew; None where there is no such place."""
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or ""
    try:
        return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "glideslope"
    except RuntimeError:  # a user without a home
        return None


def kept(folder: Path) -> str:
    """The bundle as it lies in the folder; if there is none that is whole it is made, and left there if that can be."""
    path = folder / f"vega-{version('vl-convert-python')}-{zlib.crc32(EXPORT.encode()):08x}.js.gz"
    with suppress(OSError, EOFError, ValueError, zlib.error):  # missing, or damaged as its checksum tells
        if bundle := gzip.decompress(path.read_bytes()).decode():
            return bundle
    bundle = bundled()
    with suppress(OSError):  # read-only, or full
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, gzip.compress(bundle.encode()))
    return bundle


def bundled() -> str:
    """The bundle, made."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(EXPORT)
    return bundle
