"""What is known of logs and outputs, shared by all readers of a server; one's turn at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from submarine_jupyter import jobs
from submarine_jupyter.lineindex import LineIndex
from submarine_jupyter.output import Output
from submarine_jupyter.work import Work

LANE = "logs"
_MOST_INDEXES = 64
_STEP = 64 << 20
"""Bytes that are indexed at a time: others get their turn in between."""

_MOST_OUTPUTS = 32

_T = TypeVar("_T")
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


class Outputs:
    """The outputs that were looked at last, for all readers; one reader's turn at a time."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._found: OrderedDict[tuple[str, str], tuple[Output, asyncio.Lock]] = OrderedDict()

    async def ask(self, job_id: str, task: str, question: Callable[[Output], _T]) -> _T:
        """Bring what is known of a task's output to its end, and return what `question` finds.

        Raises
        ------
        JobNotFoundError, FileNotFoundError
            There is no such job, or no such task.
        """
        paths = await self._work.call(LANE, jobs.paths_of, job_id)
        if (job_id, task) not in self._found:
            await self._work.call(LANE, jobs.check_task, job_id, task)
        key = (job_id, task)
        output, turn = self._found.setdefault(key, (Output(paths, task), asyncio.Lock()))
        self._found.move_to_end(key)
        while len(self._found) > _MOST_OUTPUTS:
            self._found.popitem(last=False)
        async with turn:
            while not await self._work.call(LANE, output.grow, _STEP):
                pass
            return await self._work.call(LANE, question, output)


def _grow(index: LineIndex, path: Path) -> bool:
    with jobs.opened_log(path) as log:
        return index.grow(log, _STEP)


def _ask(index: LineIndex, path: Path, question: Question) -> dict[str, object]:
    with jobs.opened_log(path) as log:
        return question(index, log)
