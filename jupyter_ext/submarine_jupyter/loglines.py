"""A log as people read it: lines by number, and the lines that hold a text."""

from __future__ import annotations

import os
from itertools import pairwise

from submarine_engine.logs import last_state

from submarine_jupyter.lineindex import LineIndex

LONGEST = 10_000
"""Characters of a line that are sent."""
_PIECE = 4 * LONGEST + 16
"""Bytes of a line's beginning, and of its end, that are read: `LONGEST` characters at least."""
MOST = 4 << 20
"""Characters of all lines of an answer: where lines are long, each is cut shorter."""
_SCANNED = 64 << 20
_BLOCK = 1 << 20


def read_lines(index: LineIndex, log: int, start: int | None, count: int) -> dict[str, object]:
    r"""Return lines of a log as they are left on screen.

    Parameters
    ----------
    index
        Grown to the log's end.
    start
        The number of the first line, from 0; None for the last `count` lines.

    Returns
    -------
    dict
        ``total`` lines and ``size`` bytes of the log, ``start``, and ``lines``. Of a line that
        rewrites itself by ``\r`` its last state; a line that is too long ends with a word on how
        much is left out.
    """
    total = index.total(log)
    first = max(0, total - count) if start is None else min(start, total)
    begins = index.begins(log, first, min(count, total - first))
    spans = list(pairwise(begins))
    whole = sum(min(end - begin, LONGEST) for begin, end in spans)
    most = LONGEST if whole <= MOST else min(LONGEST, MOST // max(1, len(spans)))
    lines = [shown_line(log, begin, end, most) for begin, end in spans]
    return {"total": total, "size": index.size, "start": first, "lines": lines}


def shown_line(log: int, begin: int, end: int, most: int = LONGEST) -> str:
    """Return what is left on screen of the line between two offsets, `most` characters of it."""
    if end - begin <= 2 * _PIECE:
        text = last_state(_text(os.pread(log, end - begin, begin)))
        left = len(text) - most
        return f"{text[:most]} … {left:,} characters left out" if left > 0 else text
    tail = _text(os.pread(log, _PIECE, end - _PIECE))
    if "\r" in tail:  # a progress bar: its states are short
        return last_state(tail)[:most]
    text = last_state(_text(os.pread(log, _PIECE, begin)))
    left_out = end - begin - len(text[:most].encode("utf-8", "replace"))
    return f"{text[:most]} … {left_out:,} bytes left out"


def _text(data: bytes) -> str:
    return data.removesuffix(b"\n").decode("utf-8", "replace")


def search(index: LineIndex, log: int, text: str, start: int, count: int) -> dict[str, object]:
    """Return the numbers of lines that hold `text`, from line `start` on; ASCII case is ignored.

    At most some 64 MB are looked through at a time: ``next`` is the line to go on from, None where
    the log's end was reached. A bar is searched in all its states.
    """
    needle = text.encode("utf-8", "replace").lower()
    begins = index.begins(log, start, 1)
    if not begins or start >= index.total(log):
        return {"lines": [], "next": None}
    found: list[int] = []
    line, position, kept = start, begins[0], b""
    stop = position + _SCANNED
    # A line that is longer than that is looked through to its end: otherwise nothing would go on.
    while position < index.size and (position < stop or line == start):
        block = os.pread(log, min(_BLOCK, index.size - position), position)
        if not block:
            break
        data = (kept + block).lower()
        counted = len(kept)  # newlines before it are in `line` already
        at = data.find(needle)
        while at >= 0:
            line += data.count(b"\n", counted, at)
            counted = max(counted, at)
            if not found or found[-1] != line:
                if len(found) == count:
                    return {"lines": found, "next": line}
                found.append(line)
            end = data.find(b"\n", at)
            at = data.find(needle, end) if end >= 0 else -1
        line += data.count(b"\n", counted)
        position += len(block)
        kept = data[len(data) - (len(needle) - 1) :]
    if position >= index.size:
        return {"lines": found, "next": None}
    return {"lines": found, "next": line + (bool(found) and found[-1] == line)}
