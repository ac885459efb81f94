"""Lines of a log by number and by text, without reading the log again.

An index has the number of newlines before every block of a log, and grows with it. Indexes are
shared by all readers of a server; one reader's turn at a time a log.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from submarine_engine.logs import last_state
from submarine_engine.masking import Masker, masked_pread

# Lines of a log by number: where each begins, without reading the log again.
#
# The index holds the number of newlines before every `CHUNK` bytes: 100 MB of log are 400 numbers.
# It grows as the log grows, and begins anew where the log was cut or replaced.


CHUNK = 1 << 18
_MARK = 64


class LineIndex:
    """Newlines of one log; used by one thread at a time, with the log's descriptor."""

    def __init__(self) -> None:
        self.generation = 0
        """How often it began anew: what was learnt of the log before is void then."""
        self._clear(0)

    def _clear(self, inode: int) -> None:
        self._inode = inode
        self._before = array("Q", [0])  # newlines before byte i * CHUNK
        self.size = 0
        self._newlines = 0
        self._marks = b""  # the bytes before `size`: a log that was cut and grew has others
        self._near = (0, 0)  # newlines before a byte, the one that was asked for last
        self.generation += 1

    def grow(self, log: int, most: int) -> bool:
        """Read on, and return whether everything is known now.

        Parameters
        ----------
        log
            A descriptor of the log.
        most
            How many bytes are read at most.
        """
        now = os.fstat(log)
        if now.st_ino != self._inode or now.st_size < self.size or not self._is_same(log):
            self._clear(now.st_ino)
        end = min(now.st_size, self.size + most)
        while self.size < end:
            data = os.pread(log, min(CHUNK - self.size % CHUNK, end - self.size), self.size)
            if not data:
                break
            self.size += len(data)
            self._newlines += data.count(b"\n")
            if self.size % CHUNK == 0:
                self._before.append(self._newlines)
        self._marks = os.pread(log, _MARK, max(0, self.size - _MARK))[: min(self.size, _MARK)]
        return self.size >= now.st_size

    def _is_same(self, log: int) -> bool:
        return os.pread(log, len(self._marks), self.size - len(self._marks)) == self._marks

    def total(self, log: int) -> int:
        """Return the number of lines of `log`, one that has no end yet among them."""
        ended = not self.size or os.pread(log, 1, self.size - 1) == b"\n"
        return self._newlines + (not ended)

    def lines_before(self, log: int, end: int) -> int:
        """Return how many lines begin before byte `end`; cheap where one end follows another.

        Parameters
        ----------
        log
            A descriptor of the log.
        end
            An offset; one beyond what is indexed counts as the end of that.
        """
        if end <= 0:
            return 0
        end = min(end, self.size) - 1  # a line begins behind a newline, so the last byte is none
        at, known = self._near
        chunk = end // CHUNK
        if not chunk * CHUNK <= at <= end:
            at, known = chunk * CHUNK, self._before[chunk]
        known += os.pread(log, end - at, at).count(b"\n")
        self._near = (end, known)
        return known + 1

    def begins(self, log: int, first: int, count: int) -> list[int]:
        """Return where `count` lines from `first` on begin, and where the last one ends.

        Of a log that has fewer of them, fewer: each begin but the last is that of a line. A line
        ends after its newline. Chunks without a newline are passed over unread.
        """
        wanted = count + 1
        found = [0] if first == 0 else []
        skip = max(0, first - 1)  # the newline with this number stands before the first line
        for position in self._newline_positions(log, skip):
            if len(found) == wanted:
                break
            found.append(position + 1)
        if len(found) < wanted and found and found[-1] < self.size:
            found.append(self.size)
        return found

    def _newline_positions(self, log: int, first: int) -> Iterator[int]:
        """Yield where the newlines are, from number `first` on."""
        chunk = bisect_right(self._before, first) - 1
        number = self._before[chunk]
        while chunk * CHUNK < self.size:
            after = self._before[chunk + 1] if chunk + 1 < len(self._before) else self._newlines
            if after > number:
                start = chunk * CHUNK
                data = os.pread(log, min(CHUNK, self.size - start), start)
                at = data.find(b"\n")
                while at >= 0:
                    if number >= first:
                        yield start + at
                    number += 1
                    at = data.find(b"\n", at + 1)
            number = after
            chunk += 1


# A log as people read it: lines by number, and the lines that hold a text.


LONGEST = 10_000
"""Characters of a line that are sent."""
_PIECE = 4 * LONGEST + 16
"""Bytes of a line's beginning, and of its end, that are read: `LONGEST` characters at least."""
MOST = 4 << 20
"""Characters of all lines of an answer: where lines are long, each is cut shorter."""
_SCANNED = 64 << 20
_BLOCK = 1 << 20


def read_lines(
    index: LineIndex,
    log: int,
    start: int | None,
    count: int,
    masker: Masker | None = None,
) -> dict[str, object]:
    r"""Return lines of a log as they are left on screen.

    Parameters
    ----------
    index
        Grown to the log's end.
    start
        The number of the first line, from 0; None for the last `count` lines.
    masker
        Of the job, where it has secrets.

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
    lines = [shown_line(log, begin, end, most, masker) for begin, end in spans]
    return {"total": total, "size": index.size, "start": first, "lines": lines}


def shown_line(
    log: int, begin: int, end: int, most: int = LONGEST, masker: Masker | None = None
) -> str:
    """Return what is left on screen of the line between two offsets, `most` characters of it.

    Parameters
    ----------
    log
        A descriptor of the log.
    begin, end
        The offsets: of its first byte, and behind its newline.
    masker
        Of the job; None where it has no secrets.
    """
    if end - begin <= 2 * _PIECE:
        text = last_state(_text(masked_pread(masker, log, end - begin, begin)))
        left = len(text) - most
        return f"{text[:most]} … {left:,} characters left out" if left > 0 else text
    tail = _text(masked_pread(masker, log, _PIECE, end - _PIECE))
    if "\r" in tail:  # a progress bar: its states are short
        return last_state(tail)[:most]
    text = last_state(_text(masked_pread(masker, log, _PIECE, begin)))
    left_out = end - begin - len(text[:most].encode("utf-8", "replace"))
    return f"{text[:most]} … {left_out:,} bytes left out"


def _text(data: bytes) -> str:
    return data.removesuffix(b"\n").decode("utf-8", "replace")


def search(  # noqa: PLR0913, PLR0917 - where, what and how much
    index: LineIndex,
    log: int,
    text: str,
    start: int,
    count: int,
    masker: Masker | None = None,
) -> dict[str, object]:
    """Return the numbers of lines that hold `text`, from line `start` on; ASCII case is ignored.

    At most some 64 MB are looked through at a time: ``next`` is the line to go on from, None where
    the log's end was reached. A bar is searched in all its states. Masked text is searched as it is
    shown: nobody finds out a secret letter by letter.

    Parameters
    ----------
    index
        Grown to the log's end.
    log
        A descriptor of the log.
    count
        How many lines at most.
    masker
        Of the job; None where it has no secrets.
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
        block = masked_pread(masker, log, min(_BLOCK, index.size - position), position)
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
        kept = data[max(0, len(data) - (len(needle) - 1)) :]
    if position >= index.size:
        return {"lines": found, "next": None}
    return {"lines": found, "next": line + (bool(found) and found[-1] == line)}
