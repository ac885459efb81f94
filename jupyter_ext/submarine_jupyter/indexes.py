"""The indexes of logs, shared by all readers of a server; one reader's turn at a time a log."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from submarine_jupyter import jobs
from submarine_jupyter.lineindex import LineIndex
from submarine_jupyter.work import Work

LANE = "logs"
_MOST_INDEXES = 64
_STEP = 64 << 20
"""Bytes that are indexed at a time: others get their turn in between."""

Question = Callable[[LineIndex, int], dict[str, object]]


class _Indexed:
    """One log: its index, and whose turn it is."""

    def __init__(self) -> None:
        self.index = LineIndex()
        self.turn = asyncio.Lock()


class Indexes:
    """The indexes of the logs that were looked at last, shared by all readers."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._found: OrderedDict[Path, _Indexed] = OrderedDict()

    async def ask(self, path: Path, question: Question) -> dict[str, object]:
        """Bring the log's index to its end, and return what `question` finds with it.

        Raises
        ------
        FileNotFoundError
            There is no such log.
        """
        one = self._found.setdefault(path, _Indexed())
        self._found.move_to_end(path)
        while len(self._found) > _MOST_INDEXES:
            self._found.popitem(last=False)
        async with one.turn:
            while not await self._work.call(LANE, _grow, one.index, path):
                pass
            return await self._work.call(LANE, _ask, one.index, path, question)


def _grow(index: LineIndex, path: Path) -> bool:
    with opened_log(path) as log:
        return index.grow(log, _STEP)


def _ask(index: LineIndex, path: Path, question: Question) -> dict[str, object]:
    with opened_log(path) as log:
        return question(index, log)


@contextmanager
def opened_log(path: Path) -> Iterator[int]:
    """Open a log for reading; no link leads elsewhere."""
    descriptor = jobs.open_plain(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
