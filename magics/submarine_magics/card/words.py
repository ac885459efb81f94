"""Times and foreign text as words of the card: hostile text becomes visible text."""

from __future__ import annotations

import time
import unicodedata

from submarine_engine.amounts import UNKNOWN
from submarine_engine.events import Moment

# Characters that would reorder, hide or break the text around them: Unicode's control (Cc), format
# (Cf: right-to-left overrides, zero-width characters, tags), surrogate (Cs), line and paragraph
# separators (Zl, Zp), private use (Co).
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Co"})
_JOINERS = "\u200c\u200d"  # spell words in Persian and Indic scripts, and join emoji


def visible(text: object, limit: int = 200) -> str:
    """Return foreign text as one line that cannot reorder or hide what stands around it.

    Control characters become their pictures (``␛``), other unseen ones ``[U+202E]``; longer text
    than `limit` characters is cut in the middle.
    """
    line = str(text)
    if len(line) > limit:
        head = limit * 2 // 3
        line = f"{line[:head]} … {line[len(line) - (limit - head) :]}"
    return "".join(map(_seen, line))


def visible_lines(text: str, limit: int) -> str:
    r"""Return foreign text with its lines and tabs kept, at most `limit` characters of it."""
    kept = text[:limit].replace("\r\n", "\n")
    return "".join(char if char in "\n\t" else _seen(char) for char in kept)


def _seen(char: str) -> str:
    if char == " " or char in _JOINERS or unicodedata.category(char) not in _UNSEEN:
        return char
    code = ord(char)
    if code < 0x20:  # noqa: PLR2004 - the C0 controls, which have pictures
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"  # noqa: PLR2004 - delete's picture


def time_of_day(moment: Moment | None) -> str:
    """Return the local time of `moment`, ``14:03:59``; a dash for None, or where it is no time."""
    if moment is None:
        return UNKNOWN
    try:
        return time.strftime("%H:%M:%S", time.localtime(moment.wall))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def date_and_time(moment: Moment | None) -> str:
    """Return the local time of `moment`, ``2025-03-14 15:09``; a dash as `time_of_day` does."""
    if moment is None:
        return UNKNOWN
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment.wall))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN
