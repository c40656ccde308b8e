"""Numbers as people read them: four significant digits, thin spaces between thousands, units that fit the size.

And text as a terminal can show it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

THIN = "\u202f"
"""Narrow no-break space, between thousands and before units."""

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float | None, digits: int = 4) -> str:
    """`digits` significant digits without trailing zeros: 0.0312, 12 500, 1.2e-7; "nan", "inf"; a dash for None."""
    if value is None:
        return "\u2013"
    if not math.isfinite(value):
        return str(value).replace("-", "\u2212")
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        short = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{short}e{int(exponent)}".replace("-", "\u2212")
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return _grouped(f"{rounded:,.{decimals}f}")


def count(value: int | None) -> str:
    """A whole number in full: 109 386; a dash for None."""
    return "\u2013" if value is None else f"{value:,}".replace(",", THIN).replace("-", "\u2212")


def plural(amount: int, noun: str) -> str:
    """`1 error`, `0 errors`, `12 500 steps`."""
    ending = "" if amount == 1 else ("es" if noun.endswith("s") else "s")
    return f"{count(amount)} {noun}{ending}"


def percent(share: float | None) -> str:
    """A share in [0, 1] as a percentage; never 0 % or 100 % when it is not exactly that."""
    if share is None or not math.isfinite(share):
        return "\u2013"
    value = 100 * share
    if 0 < value < 0.1:
        return f"< 0.1{THIN}%"
    if 99.9 < value < 100:
        return f"> 99.9{THIN}%"
    return f"{number(value, 2 if value < 10 else 3)}{THIN}%"


def step_range(first: int | None, last: int | None) -> str:
    """`step 3`, `steps 3 to 25`, or nothing where no step is known."""
    if first is None and last is None:
        return ""
    if first is None or last is None or first == last:
        return f"step {count(first if first is not None else last)}"
    return f"steps {count(first)} to {count(last)}"


def duration(seconds: float | None) -> str:
    """Seconds in the two largest units that fit: 340 ms, 12.5 s, 3 min 20 s, 2 h 05 min."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "\u2013"
    if seconds < 1e-3:
        return f"{number(seconds * 1e6, 3)}{THIN}\u00b5s"
    if seconds < 1:
        return f"{number(seconds * 1e3, 3)}{THIN}ms"
    if seconds < 60:
        return f"{number(seconds, 3)}{THIN}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{THIN}min {rest:02d}{THIN}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}{THIN}h {minutes:02d}{THIN}min"
    return f"{hours // 24}{THIN}d {hours % 24:02d}{THIN}h"


def sentence(name: str) -> str:
    """A rule's name as a title: `learning-rate-too-large` becomes `Learning rate too large`."""
    words = name.replace("-", " ").replace("_", " ").replace("non finite", "non-finite").strip()
    return capitalized(words)


def capitalized(words: str) -> str:
    """The same with a capital at the start, whatever the rest has."""
    return words[:1].upper() + words[1:]


def shape_words(shape: Sequence[int]) -> str:
    """The shape of a tensor: 128 \u00d7 784."""
    return " \u00d7 ".join(str(size) for size in shape)


def listed(items: Sequence[str], most: int = 3) -> str:
    """`a, b and c`; beyond `most`, `a, b, c and 4 more`."""
    if len(items) > most:
        return ", ".join(items[:most]) + f" and {len(items) - most} more"
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def plain(text: str) -> str:
    """Ordinary spaces in place of thin ones, which terminals and grep dislike."""
    return text.replace(THIN, " ")


def visible(text: str) -> str:
    """The text on one line, with control characters (escape sequences among them) made visible."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text.replace("\n", "\\n"))


def xml_text(text: str) -> str:
    """The text with what XML 1.0 forbids, escapes and lone surrogates among it, as a replacement character."""
    return _NOT_XML.sub("\ufffd", text)


def _grouped(text: str) -> str:
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    joined = whole.replace(",", THIN) + (f".{fraction}" if fraction else "")
    return joined.replace("-", "\u2212")
