"""The text of a paragraph within its limit: the first part as it comes, then the last lines."""

from __future__ import annotations

import time

from submarine_engine.logs import BarFolder
from submarine_engine.tail import Tail

from submarine_zeppelin.plain import Plain

_EVERY = 0.2
_LIVE_SIZE = 8_000
"""Characters of the last part while the paragraph runs: five updates a second stay a trickle."""
_LEAST_TAIL = 200


class Budget:
    """The bytes that all the texts of a paragraph may take together.

    Parameters
    ----------
    limit
        Bytes; half of them for what comes first, the rest for the last lines.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._left = limit // 2
        self._tails = 0

    def split(self, text: str) -> tuple[str, str]:
        """Take what there is room for, up to the end of a line; return it, and the rest."""
        size = _size(text)
        if size <= self._left:
            self._left -= size
            return text, ""
        most = len(text) * self._left // size  # by the mean: some characters take more bytes
        self._left = 0
        most = text.rfind("\n", 0, most) + 1 or most
        return text[:most], text[most:]

    def give_back(self, text: str) -> None:
        """Take `text` out of the account: it is overwritten."""
        self._left += _size(text)

    def tail(self) -> Tail:
        """Make a tail; each next one is half as long, so that all of them keep to the limit."""
        self._tails += 1
        return Tail(max(_LEAST_TAIL, self.limit // 4 >> (self._tails - 1)))


class Block:
    """One stretch of text.

    Parameters
    ----------
    where
        What to say where lines are left out.
    """

    def __init__(self, budget: Budget, where: str) -> None:
        self.where = where
        self.stale = False
        self._budget = budget
        self._plain = Plain()
        self._bars = BarFolder()
        self._head = ""
        self._tail: Tail | None = None
        self._due = 0.0

    def add(self, text: str) -> str | None:
        """Take the next text.

        Returns
        -------
        str or None
            What is to be appended; None where more than the end has changed (see `stale`).
        """
        text = self._bars.feed(self._plain.feed(text))
        if self._tail is None:
            over = text.startswith("\r")
            if over:
                kept = self._head.rfind("\n") + 1
                self._budget.give_back(self._head[kept:])
                self._head, text = self._head[:kept], BarFolder().feed(text[1:])
            head, text = self._budget.split(text)
            self._head += head
            if not text:
                self.stale = self.stale or over
                return None if over else head
            self._tail = self._budget.tail()
        self._tail.add(text)
        self.stale = True
        return None

    def due(self) -> bool:
        """Return whether the block is to be shown anew; it is not then until it changes again."""
        now = time.monotonic()
        if not self.stale or now < self._due:
            return False
        self.stale, self._due = False, now + _EVERY
        return True

    def text(self, *, live: bool = False) -> str:
        """Return the block; while the paragraph runs only little of its last part."""
        if self._tail is None:
            return self._head
        elided, last = self._tail.last(_LIVE_SIZE if live else None)
        lines = f"{elided:,} line{'' if elided == 1 else 's'} left out{' so far' if live else ''}"
        gap = "" if not self._head or self._head.endswith("\n") else "\n"
        return f"{self._head}{gap}… {lines}; {self.where}\n\n{last}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
