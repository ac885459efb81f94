"""A script under construction, which knows the cell and line that each of its lines is from."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from submarine_engine.bundle.model import Cell, LineSpan
from submarine_engine.bundle.text import Lines

THE_CALL = "the call"
IPYTHON_SYNTAX = "IPython syntax"
"""What stands in place of a file's name for cells that nobody typed."""

_NOT_TYPED = (THE_CALL, IPYTHON_SYNTAX)


class Script:
    """A script that grows line by line, and knows where each line came from."""

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self._lines: list[tuple[str, Cell | None, int]] = []
        self._title: str | None = None

    @property
    def text(self) -> str:
        """The script."""
        return "".join(f"{line}\n" for line, _, _ in self._lines)

    def own(self, lines: Iterable[str]) -> None:
        """Add lines of our own."""
        self._lines += [(line, None, 0) for line in lines]

    def take(self, cell: Cell, lines: Lines) -> None:
        """Add lines of a cell; those with the number 0 are our own."""
        self._lines += [(line, cell if number else None, number) for number, line in lines]

    def space(self, count: int) -> None:
        """Add empty lines."""
        self.own([""] * count)

    def section(self, title: str) -> bool:
        """Begin a section, unless the last one has that title; return whether it did."""
        title = " ".join(title.split())
        if title == self._title:
            return False
        self._title = title
        self.space(2)
        self.own([f"# %% {title}"])
        return True

    def spans(self) -> tuple[LineSpan, ...]:
        """Return where the lines came from."""
        runs = groupby(
            enumerate(self._lines, 1),
            lambda entry: (id(entry[1][1]), entry[0] - entry[1][2]),  # one cell, line for line
        )
        found = []
        for _, run in runs:
            entries = list(run)
            line, (_, cell, number) = entries[0]
            if cell is not None and cell.file not in _NOT_TYPED:
                found.append(_span(self.entry, line, len(entries), cell, number))
        return tuple(found)


def _span(entry: str, line: int, count: int, cell: Cell, number: int) -> LineSpan:
    return LineSpan(
        file=entry,
        line=line,
        count=count,
        cell=cell.label,
        cell_id=cell.id,
        cell_number=cell.number,
        cell_line=number,
    )
