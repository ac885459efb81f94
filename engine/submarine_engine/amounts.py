"""Times, sizes, numbers and long words as people say them, on a card, in a panel, in a terminal.

The page's own script has `clock` and `duration` too, for times that go on (``words.js``);
``tests/card/amounts.json`` holds both to one rule.
"""

from __future__ import annotations

import math

UNKNOWN = "—"
_GAP = " … "


def duration(seconds: float | None) -> str:
    """Return how long `seconds` that are over were: ``38 ms``, ``4.2 s``, ``3 min 05 s``.

    Where that is None or not finite, it is not known, and `UNKNOWN` is returned.
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0.9995:  # noqa: PLR2004 - what rounds to a thousand is a second
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else clock(seconds + 0.5)  # noqa: PLR2004 - one place


def clock(seconds: float | None) -> str:
    """Return a length of time that still runs, in whole seconds: ``38 s``, ``3 min 05 s``."""
    if seconds is None or not math.isfinite(seconds):
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


def exactly(seconds: float) -> str:
    """Return `seconds` that somebody has set, nothing of them rounded: ``2 h``, ``90 s``."""
    for unit, each in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and seconds % each == 0:
            return f"{seconds / each:.0f} {unit}"
    return f"{seconds:g} s"


def size(count: int) -> str:
    """Return `count` bytes in words: ``12 MB``, in powers of a thousand."""
    power = min(4, max(0, len(str(max(0, count))) - 1) // 3)
    unit = ("bytes", "kB", "MB", "GB", "TB")[power]
    value = count / 1000**power
    return f"{value:.1f} {unit}" if power and value < 9.95 else f"{value:.0f} {unit}"  # noqa: PLR2004 - one place


def percent(fraction: float) -> str:
    """Return `fraction`, from 0 to 1, as ``72 %``; never 100 % before the end."""
    return f"{int(fraction * 100 + 1e-9)} %"


def shortened(text: str, longest: int) -> str:
    """Return what a program has said in one line: its beginning and its end where that is long.

    What a chain of programs says of an error names the cause last. Words stay whole, but for one
    that is longer than its half.

    Parameters
    ----------
    text
        What it said.
    longest
        Characters of the line at most.
    """
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    half = (longest - len(_GAP)) // 2
    begin, end = line[: half + 1], line[-half - 1 :]
    # The character beyond each half tells whether the half ends with a word.
    head, tail = begin.rpartition(" ")[0] or begin[:half], end.partition(" ")[2] or end[1:]
    return head + _GAP + tail


def count(number: int, noun: str) -> str:
    """Return `number` and `noun`, which is given in the singular: ``1 GPU``, ``2 GPUs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ordinal(number: int) -> str:
    """Return the ordinal of `number`: ``1st``, ``2nd``, ``11th``."""
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
