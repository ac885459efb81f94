"""Lines of a log by number: where each begins, without reading the log again.

The index holds the number of newlines before every `CHUNK` bytes: 100 MB of log are 400 numbers.
It grows as the log grows, and begins anew where the log was cut or replaced.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator

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
        """Read at most `most` bytes more, and return whether everything is known now."""
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
        """Return the number of lines, one that has no end yet among them."""
        ended = not self.size or os.pread(log, 1, self.size - 1) == b"\n"
        return self._newlines + (not ended)

    def lines_before(self, log: int, end: int) -> int:
        """Return how many lines begin before byte `end`; cheap where one end follows another."""
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
