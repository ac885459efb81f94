"""Numbers, times and foreign text as words of the card; hostile text becomes visible text."""

from __future__ import annotations

import math
import time
import unicodedata

from submarine_engine.events import Moment

UNKNOWN = "—"

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


def duration(seconds: float) -> str:
    """Return a length of time as people say it: ``38 ms``, ``4.2 s``, ``3 min 05 s``."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0.9995:  # noqa: PLR2004 - what rounds to a thousand is a second
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else clock(seconds + 0.5)  # noqa: PLR2004 - one place


def size(count: int) -> str:
    """Return a number of bytes as people say it: ``12 MB``, in powers of a thousand."""
    power = min(4, max(0, len(str(max(0, count))) - 1) // 3)
    unit = ("bytes", "kB", "MB", "GB", "TB")[power]
    value = count / 1000**power
    return f"{value:.1f} {unit}" if power and value < 9.95 else f"{value:.0f} {unit}"  # noqa: PLR2004 - one place


def clock(seconds: float) -> str:
    """Return a length of time in whole seconds, for one that still runs (card.js has the same)."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    if hours:
        return f"{hours} h {minute:02} min"
    return f"{minutes} min {second:02} s" if minutes else f"{second} s"


def time_of_day(moment: Moment | None) -> str:
    """Return the local time, ``14:03:59``; a dash where there is none or it is no time."""
    if moment is None:
        return UNKNOWN
    try:
        return time.strftime("%H:%M:%S", time.localtime(moment.wall))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def date_and_time(moment: Moment | None) -> str:
    """Return the local date and time, ``2025-03-14 15:09``; a dash as `time_of_day` does."""
    if moment is None:
        return UNKNOWN
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment.wall))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def ordinal(number: int) -> str:
    """Return ``1st``, ``2nd``, ``11th``."""
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def count(number: int, noun: str) -> str:
    """Return ``1 GPU``, ``2 GPUs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
