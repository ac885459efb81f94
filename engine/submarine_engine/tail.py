"""The end of a long log as it is kept in a cell: the last part, and how much is left out."""

from __future__ import annotations

from submarine_engine.logs import BarFolder


class Tail:
    """Keeps the last part of a text; the beginning falls off, line by line.

    Parameters
    ----------
    limit
        Characters to keep; up to twice as many are held in between.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = ""
        self._elided = 0

    def add(self, text: str) -> None:
        r"""Append `text`; where it begins with ``\r`` it overwrites the last line kept."""
        if text.startswith("\r"):
            self._text = self._text[: self._text.rfind("\n") + 1]
            text = BarFolder().feed(text[1:])
        self._text += text
        if len(self._text) > 2 * self._limit:
            self._elided, self._text = self.last()

    def last(self, size: int | None = None) -> tuple[int, str]:
        """Return the number of lines left out, and the last `size` characters (default: all kept).

        The text begins with a whole line where one ends within `size`.
        """
        start = self._cut(self._limit if size is None else min(size, self._limit))
        return self._elided + self._text.count("\n", 0, start), self._text[start:]

    def _cut(self, size: int) -> int:
        """Return where the last `size` characters begin, moved on to the next whole line."""
        start = max(0, len(self._text) - size)
        if start == 0 or self._text[start - 1] == "\n":
            return start
        newline = self._text.find("\n", start)
        return start if newline in (-1, len(self._text) - 1) else newline + 1
